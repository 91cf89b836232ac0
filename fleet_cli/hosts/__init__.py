# SPDX-License-Identifier: Apache-2.0
"""Hosts, their services and aggregates; ``drain`` with ``emptying``; ``utilization`` of the fleet over time.

:mod:`fleet_cli.command_list` names the commands.
"""
