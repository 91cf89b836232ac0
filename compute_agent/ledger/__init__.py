# SPDX-License-Identifier: Apache-2.0
"""The agent's messages: calls to the conductor, which writes the ledger, and messages to other services.

Read ``build_calls`` and ``move_calls`` (each is repeated until it is answered), ``reporter`` and ``last_report``
(heartbeats and reports of hosts), ``instance_info`` (to the schedulers) and ``notifications`` (to other programs).
"""
