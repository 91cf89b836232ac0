# SPDX-License-Identifier: Apache-2.0
"""The ``fleet`` command (users and operators) and ``fleet-manage`` (the database), on cliff.

``main`` and ``manage`` list the commands. ``base`` has what commands share: their bases, tables, progress and arguments.
Then there is one room for each topic, as in the overview of the command:

- ``servers``, ``hosts``, ``catalog`` (flavors, images, groups, key pairs, quotas) and ``volumes``
- ``planning``: what would happen, and why: explain, capacity, whatif, rebalance, replay
- ``survival``: what the loss of a host or a rack would do, and promises to survive it
- ``health``: doctor and top
- ``upkeep``: the database and the broker, for ``fleet-manage``

``fleet`` uses RPC only; ``whatif``, ``rebalance`` and ``fleet-manage`` open the database. No other package imports this one.
"""
