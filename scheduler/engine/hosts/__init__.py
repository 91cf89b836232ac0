# SPDX-License-Identifier: Apache-2.0
"""Hosts as the engine sees them: a ``table`` of columns, and ``candidates``, a part of its rows.

``domain`` is the value that brings the columns and their arithmetic. ``consumption``, ``claim_limits`` and ``overlay``
are what picks of one request change; ``inventory`` with ``instance_index`` and ``remembered`` keeps the table current;
``restriction`` leaves only some hosts.
"""
