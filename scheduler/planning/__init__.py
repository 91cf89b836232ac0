# SPDX-License-Identifier: Apache-2.0
"""Questions about a fleet that is not asked to place anything.

``capacity_count`` counts how many more instances fit. ``whatif`` places demands on a copy of the fleet
(``copied_fleet``), which ``hypothetical`` changes; ``readings`` measures the copy, and ``outcomes`` counts what was placed
and refused. ``rebalance`` plans moves that free whole hosts, ``make_room`` moves that let a large instance fit; both stand
on ``ground``.
"""
