# SPDX-License-Identifier: Apache-2.0
"""Instances and what happens to them.

``instances`` finds and locks them, ``instance_listing`` lists them, and ``instance_values`` makes of a row what is sent.
``builds`` and ``moves`` are the steps, ``history`` keeps what was done. ``boot_data`` and ``signatures`` belong to a build.
``outcomes`` are those of operators' changes.
"""
