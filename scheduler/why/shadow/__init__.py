# SPDX-License-Identifier: Apache-2.0
"""Compares the choices of a shadow, which decides and changes nothing, with those that count.

Read ``verdict`` (what the shadow would choose for a request, and why not others), ``outcome`` (how that compares), and
``ledger`` (verdicts that wait for their instance, and the sums of all comparisons, in a file).
"""
