# SPDX-License-Identifier: Apache-2.0
"""The ``fleet`` command (users and operators) and ``fleet-manage`` (the database), on cliff.

``main`` and ``manage`` list the commands. ``command`` and ``database_command`` are their bases; ``application`` has
what both programs share. Then there is one file for each noun or command.

Output: ``listing`` and ``table_fit`` (tables), ``moments`` (times), ``progress``, ``finding_list`` (checks),
``metric_pages`` (metrics of ``top``), ``utilization`` (a fleet over time), ``completion``. Arguments:
``build_arguments`` and ``trace_arguments``. Work behind a command: ``planning`` (of ``whatif`` and ``rebalance``),
``move_list`` (of ``rebalance``), ``emptying`` (of ``host drain``), ``examination`` and
``storage_examination`` (of ``doctor``).

``fleet`` uses RPC only; ``whatif``, ``rebalance`` and ``fleet-manage`` open the database. No other package imports this one.
"""
