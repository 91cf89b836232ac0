# SPDX-License-Identifier: Apache-2.0
"""Questions about a fleet that is not asked to place anything.

``whatif`` places demands on a changed copy of the fleet. ``rebalance`` plans moves that free whole hosts, ``make_room``
moves that let a large instance fit; both stand on ``ground``.
"""
