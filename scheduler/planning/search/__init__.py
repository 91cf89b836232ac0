# SPDX-License-Identifier: Apache-2.0
"""Anytime local search over columns: better assignments of items to places, and how far they are from the best.

It knows no host and no guest; ``problem`` is the form of a question. ``assignment`` prices a move or a swap for all choices
at once. Three searches stand on it: ``descent`` (steepest), ``annealing`` (moves, swaps, chains through third places), and
``clearing`` (all items off a place), which ``goals`` tries in many orders. ``bounds`` is what no assignment does better.
``ordering`` puts the moves in an order in which no state breaks a rule. Where numba is installed, ``compiled`` is in the
place of the annealing.
"""
