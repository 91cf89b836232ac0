# SPDX-License-Identifier: Apache-2.0
"""The supervisor of one guest process, which outlives the agent that started it (driver ``local``).

Standard library and relative imports only: one supervisor runs for each guest as a package of its own, without what
``compute_agent`` imports, so that it starts in milliseconds and stays small. ``__main__`` is
the supervisor, ``process`` knows a process for certain, ``state_file`` is what survives.
"""
