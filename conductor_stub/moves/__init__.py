# SPDX-License-Identifier: Apache-2.0
"""Moves: resizes with their confirm and revert, and evacuations of hosts that are down.

A move is a record (``fleet.move_states`` draws its life); what a host has to do follows from the record's status alone,
so a host is only told to look (``advance_migration``), and a message that is repeated, late or lost does no harm.
A move that fails leaves the instance as it was.

Read in this order: ``intake`` (what operators ask for), ``placement`` (the scheduler and the hosts are asked), ``claims``
(a destination claims, hosts do their parts), ``failures`` (the next alternate, or back), ``mover`` (all of it for one
conductor), ``sweeper`` (what was lost), ``group_evacuation``, ``manager`` (the RPC surface).
"""
