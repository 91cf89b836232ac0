# SPDX-License-Identifier: Apache-2.0
"""Volumes and changes of them, their types and snapshots, the pools that they are in, and ``existing_volumes``, which are
taken over.

Registered in :mod:`fleet_cli.command_list`.
"""
