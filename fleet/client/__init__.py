# SPDX-License-Identifier: Apache-2.0
"""Shared by the command line (``fleet.cli``) and the trial fleets (``fleet.trial``).

Read ``connection`` (calls to the conductor and the scheduler, and their failures in plain words), ``following``
(waits until builds, moves and deletions end), ``faults`` (the faults of an instance as text) and ``argument_types``.
"""
