# SPDX-License-Identifier: Apache-2.0
"""Servers, and all that belongs to one.

``servers`` has the routes, ``server_request`` reads requests for new ones, ``server_view`` writes answers. Then
``server_change``, ``server_details`` (metadata and tags), ``attachments`` (their volumes), ``block_devices``, ``actions``,
``instance_actions`` (what was done) and ``server_migrations``.
"""
