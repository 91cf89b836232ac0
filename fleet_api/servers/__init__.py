# SPDX-License-Identifier: Apache-2.0
"""Servers, and all that belongs to one.

``servers`` has the routes, ``input`` reads what clients send, ``server_view`` writes answers in the forms of
``server_forms``. Then ``server_details`` (metadata and tags), ``attachments`` (their volumes), ``actions``,
``instance_actions`` (what was done) and ``server_migrations``.
"""
