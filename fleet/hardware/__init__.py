# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices: what fits where, and what is left. Pure functions, for the scheduler and the claim alike.

Vocabulary: a *cell* is a NUMA node, of a host or of an instance; to *pin* is to give a vcpu a CPU of its own; a *pool*
counts free PCI devices of one kind. ``Hardware`` is what a node has left, ``Wanted`` what an instance asks for, ``Held``
what it then has. A topology may change between the scheduler's look and the claim: each fits anew, and the claim counts.

Read in this order: ``node`` (the three above), ``topology_fit`` (which cells), ``cell_fit`` (one cell), ``pages``,
``pinning``, ``pools``, ``usage``; ``constraints`` and ``aliases`` make a request of a flavor and an image.
"""
