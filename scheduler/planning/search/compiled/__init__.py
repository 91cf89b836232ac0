# SPDX-License-Identifier: Apache-2.0
"""The search in machine code, where numba is installed (``fleet[planner]``): a hundred times as many moves in the same time.

``tables`` holds an assignment as arrays; the loop in ``kernel`` draws moves and swaps; ``oscillation`` sets temperature and
prices for it until the time is over. :mod:`scheduler.planning.search.annealing` calls it, and imports it only then: numba
takes a second and 100 MB.
"""
