# SPDX-License-Identifier: Apache-2.0
"""The supervisor of one guest process, which outlives the agent that started it (driver ``local``).

It uses the standard library and relative imports only. One supervisor runs for each guest, as a package of its own
without ``compute_agent``'s imports, so it starts in milliseconds and stays small. ``__main__`` is the supervisor,
``process`` identifies processes, ``state_file`` is what survives.
"""
