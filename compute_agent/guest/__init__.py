# SPDX-License-Identifier: Apache-2.0
"""The supervisor of one guest process, which outlives the agent that started it (driver ``local``).

Standard library only: one of these runs for each guest, and has to start in milliseconds and stay small. ``__main__`` is
the supervisor, ``process`` knows a process for certain, ``state_file`` is what survives.
"""
