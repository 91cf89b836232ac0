# SPDX-License-Identifier: Apache-2.0
"""Paths of the services: with the project in them, under other roots, and with the names of their parameters."""
