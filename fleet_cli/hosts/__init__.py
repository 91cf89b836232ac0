# SPDX-License-Identifier: Apache-2.0
"""Hosts, their services and aggregates; ``drain`` with ``emptying``; ``utilization`` of the fleet over time.

Registered in :mod:`fleet_cli.command_list`.
"""
