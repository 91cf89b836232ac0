# SPDX-License-Identifier: Apache-2.0
"""Questions about a fleet that is not asked to place anything.

``whatif`` places demands on a changed copy of the fleet. ``rebalance`` plans moves, by the searches of ``moves``; ``waves``
plans maintenances; both stand on ``ground``. ``survival`` is about lost hosts.
"""
