# SPDX-License-Identifier: Apache-2.0
"""The real thing: daemons as separate processes, a private RabbitMQ and a private PostgreSQL.

``daemons`` starts, kills and restarts them; ``invariants`` checks what must hold, from the ledger, the agents and the
drivers; ``plugins`` are filters as a user would bring them.
"""
