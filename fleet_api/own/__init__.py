# SPDX-License-Identifier: Apache-2.0
"""Ours beside nova's, under ``/fleet/v1``: the routes, a stream of events, and the document of all routes."""
