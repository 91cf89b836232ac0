# SPDX-License-Identifier: Apache-2.0
"""Hosts: their rows, what of them is used, hardware, services with heartbeats, aggregates; ``lookup`` finds by name."""
