# SPDX-License-Identifier: Apache-2.0
"""Maintenances of hosts in waves: drain, hook, return, next wave (``fleet.maintenance_states``).

All that is known is in rows, so any conductor goes on with what another one has begun. Read ``keeper`` (the look every few
seconds), ``draining`` and ``working`` (the steps of a host), then ``manager`` (what operators see and decide).
"""
