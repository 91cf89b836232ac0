# SPDX-License-Identifier: Apache-2.0
"""Moves: resizes with their confirm and revert, live migrations, and evacuations of hosts that are down.

A move is a migration record; ``fleet.move_states`` draws its life. The status alone says what a host must do, so a host
only receives a notice to read the record (``advance_migration``): a repeated, late or lost notice does no harm. A move
that fails leaves the instance as it was.

Read ``intake`` (what operators ask for), ``acceptance`` (accepted, or refused), ``machine`` (the shared machine, over
records), ``placement`` (the scheduler is called, hosts are notified), ``claims`` (a destination claims, hosts do their
parts), ``swap`` (the guest has arrived),
``live`` (live migrations), ``ways`` (which guests can move while they run, and where to), ``processors`` (which hosts lack
features that a running guest sees), ``slots`` (how many at a time),
``failures`` (the next alternate, or undone), ``sweeper`` (steps that are overdue),
``progress`` (what hosts read and report), ``group_evacuation`` (members of an affinity group), ``views`` (a record for
operators), ``manager`` (the RPC surface).
"""
