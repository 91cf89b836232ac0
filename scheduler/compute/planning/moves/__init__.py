# SPDX-License-Identifier: Apache-2.0
"""Plans of moves for ``fleet rebalance``.

``columns`` makes a problem of ``scheduler.planning.search`` of a fleet. ``goals`` searches: free hosts, room, balance, the
end of a skew. ``steps`` puts the moves in an order whose every state the filters accept; ``promises`` looks that no state
breaks a tolerance. ``moved`` is the fleet after some moves.
"""
