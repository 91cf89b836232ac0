# SPDX-License-Identifier: Apache-2.0
"""Builds that wait for room. :mod:`conductor_stub.builds.room_queue` reads and writes them.

``queued_builds`` has their rows, ``room_changes`` the hosts with new room; ``room_queue`` wakes builds, and ``kept_host``
keeps a host for the one that has waited longest.
"""
