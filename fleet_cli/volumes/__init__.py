# SPDX-License-Identifier: Apache-2.0
"""Volumes, their types and snapshots, the pools that they are in, and ``existing_volumes``, which are taken over."""
