# SPDX-License-Identifier: Apache-2.0
"""Shared by the command line (``fleet_cli``) and the trial fleets (``fleet_trial``).

Read ``calls`` (what can be asked, and failures in plain words), ``connection`` (over the message broker) and
``http_connection`` (through ``fleet-api``), ``following``
(waits until builds, moves and deletions end), ``ways`` (which guests can
move while they run), ``faults`` (the faults of an instance as text) and ``argument_types``.
"""
