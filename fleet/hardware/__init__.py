# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices: what fits where, and what is left. Pure functions for the scheduler and the claim.

Vocabulary: a *cell* is a NUMA node, of a host or of an instance; to *pin* a vcpu is to give it a CPU of its own; a
*pool* counts free PCI devices of one kind. ``Hardware`` is what a node has free, ``Wanted`` what an instance asks
for, ``Held`` what it then holds. A topology may change between the decision and the claim: both compute the fit, and
the claim's result counts.

Read in this order: ``node`` (the three above), ``topology_fit`` (which cells), ``cell_fit`` (one cell), ``pages``,
``pinning``, ``pools``, ``usage``, ``shortage`` (what is missing); ``constraints``, ``aliases`` and ``cpu_spec`` make
a request from a flavor and an image. ``conf`` has the options.
"""
