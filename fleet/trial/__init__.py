# SPDX-License-Identifier: Apache-2.0
"""Trial fleets, and request traces: for newcomers, tests and planning. No daemon imports this package.

Read ``trio`` (all three services at once: ``make demo``, ``make up``), ``trio_config`` (its directory), ``demo`` (the
batch that it boots), ``private_servers`` (a broker and databases that end with their process), ``traces`` (request
traces as files), ``replay`` (sends a trace through a fleet), ``replay_events`` (what it has placed comes and goes) and
``replay_report`` (its figures over time). ``volume_traces``, ``volume_replay`` and ``volume_replay_report`` are the same
for volumes.
"""
