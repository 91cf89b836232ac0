# SPDX-License-Identifier: Apache-2.0
"""The agent's messages to conductors, which write the ledger.

Read ``volume_calls`` (each is repeated until it is answered) and ``reporter`` (heartbeats and reports of pools).
"""
