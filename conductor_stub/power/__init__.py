# SPDX-License-Identifier: Apache-2.0
"""Power: the guest of an instance is stopped, started, rebooted, suspended or resumed.

The row says what is wanted: its task (``fleet.states.POWER_TASKS``). Its host only receives a notice to read the row
(``advance_power``): a repeated, late or lost notice does no harm. A task that does not end within ``power_timeout`` leaves
the instance as it was.

Read ``intake`` (what users ask for), ``machine`` (the shared machine, over instance rows), ``sweeper`` (steps that are
overdue). Hosts report through ``conductor_stub.agents``.
"""
