# SPDX-License-Identifier: Apache-2.0
"""Trial fleets, and request traces: for newcomers, tests and planning. No daemon imports this package.

Read ``trio`` (all services at once: ``make demo``, ``make up``), ``trio_config`` (its directory), ``demo`` (the batch that
it boots), ``private_servers`` (a broker and databases that end with their process) and ``replaying`` (request traces).
"""
