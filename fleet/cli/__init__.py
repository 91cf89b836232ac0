# SPDX-License-Identifier: Apache-2.0
"""The ``fleet`` command (users and operators) and ``fleet-manage`` (the database), on cliff.

Read in this order: ``main`` (the commands, registered in sight), ``command`` (what they share: plain errors, the
connection), ``connection`` (the RPC clients), then one file per noun. ``fleet`` speaks RPC only; ``manage`` alone opens
the database. ``trio`` starts all three services for ``make demo`` and ``make up``; ``private_servers`` gives it, and the
tests, brokers and databases of their own.
"""
