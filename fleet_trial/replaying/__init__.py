# SPDX-License-Identifier: Apache-2.0
"""Request traces, and their replay through a fleet.

``traces`` reads files of requests, ``pacing`` compresses their time, ``replay`` sends them, ``replay_events`` lets what was
placed come and go, ``replay_report`` has the figures over time. ``volume_traces``, ``volume_replay`` and
``volume_replay_report`` are the same for volumes.
"""
