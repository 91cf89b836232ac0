# SPDX-License-Identifier: Apache-2.0
"""Instances and what happens to them.

``instances`` finds, lists and locks; ``builds`` and ``moves`` are the steps, ``history`` keeps what was done.
``queued_builds``, ``room_queue``, ``room_changes`` and ``kept_host`` are for builds that wait for room. ``boot_data``
and ``signatures`` belong to a build.
"""
