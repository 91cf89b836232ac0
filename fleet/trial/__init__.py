# SPDX-License-Identifier: Apache-2.0
"""Trial fleets, and trials of a fleet: for newcomers, tests and planning; no daemon imports this.

Read ``trio`` (all three services at once: ``make demo``, ``make up``), ``trio_config`` (its directory), ``demo`` (the batch
that it boots), ``private_servers`` (a broker and databases that end with their process), ``traces`` (request
traces as files) and ``replay`` (sends one through a fleet).
"""
