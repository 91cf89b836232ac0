# SPDX-License-Identifier: Apache-2.0
"""Work on instances: what an order does, and what the agent does by itself.

Read ``orders`` (what confirms each order), ``build`` with ``spawned_attempts``, ``move`` with ``live_migration``, ``power``,
``attach``, ``reach`` (which volumes the host can open), ``termination``; then ``recovery`` (after a restart),
``former_resize``, ``comparison`` (with the ledger) and ``power_sync`` (guests that do not run).
"""
