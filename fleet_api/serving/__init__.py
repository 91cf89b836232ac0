# SPDX-License-Identifier: Apache-2.0
"""Sockets and threads of fleet-api: ``http_server``, and ``fair_threads``, which gives each user a share of them."""
