# SPDX-License-Identifier: Apache-2.0
"""The search in machine code, where numba is installed (``fleet[planner]``).

It draws one to five million moves and swaps a second, one at a time, the fewer the larger the fleet is. The search over
columns makes one or two thousand steps in this time, each over all choices of some items.

``tables`` holds an assignment as arrays; the loop in ``kernel`` draws moves and swaps; ``oscillation`` sets temperature and
prices for it until the time is over. :mod:`scheduler.planning.search.annealing` calls it, and imports it only then: numba
takes 80 MB.
"""
