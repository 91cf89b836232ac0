# SPDX-License-Identifier: Apache-2.0
"""Reads the fleet, and decides on a copy of it, for ``scheduler.planning.survival``, once or again and again.

``room_reader`` reads guests and hosts (``guests``: who is where; ``shapes``: which hosts take which guests), ``decisions``
places guests on the copy.
``promised_losses`` keeps both up to date for ``promises``, the prover of a scheduler. ``kept_promises`` serves plans.
"""
