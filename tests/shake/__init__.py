# SPDX-License-Identifier: Apache-2.0
"""Runs tests under conditions that change with a seed, to find races and orders that a test or a service relies on.

- A *round* runs the chosen tests once, with one seed.
- A *lane* is a process of pytest that runs a part of a round, in an order that depends on the seed alone.
- The *conditions* are those of one process: threads switch often, rows without an order arrive in any order, and readings
  of a clock are pauses apart. Daemons that a test starts have them as well.

Read in this order: ``conditions``, ``site/sitecustomize`` (the conditions in daemons), ``plugin`` (order and report of one
lane), ``outcomes`` (what ran how often), ``__main__`` (the rounds). ``make shake`` runs it; ``make test`` does not.
"""
