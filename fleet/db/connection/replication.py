# SPDX-License-Identifier: Apache-2.0
"""The copies of the database on other machines, as its server reports them (``fleet doctor``).

:mod:`conductor_stub.operators.diagnosis` reads it.
"""

from __future__ import annotations

import re

import sqlalchemy as sa

_STANDBYS = sa.text(
    """
    SELECT application_name AS name, state, sync_state, CAST(EXTRACT(EPOCH FROM replay_lag) AS FLOAT) AS lag_s
    FROM pg_stat_replication ORDER BY application_name, pid
    """
)
_REQUIRED = sa.text("SELECT current_setting('synchronous_standby_names')")
_WSREP = sa.text(
    """
    SELECT variable_name, variable_value FROM information_schema.global_status
    WHERE variable_name IN ('WSREP_CLUSTER_SIZE', 'WSREP_CLUSTER_STATUS', 'WSREP_LOCAL_STATE_COMMENT',
                            'WSREP_FLOW_CONTROL_PAUSED')
    ORDER BY variable_name
    """
)
#: Standbys that must confirm a commit: ``ANY 1 (a, b)``, ``FIRST 2 (a, b)``, ``1 (a)``.
_NUMBER = re.compile(r"\s*(?:(?:ANY|FIRST)\s+)?(\d+)\s*\(", re.IGNORECASE)


def read(connection: sa.Connection) -> dict[str, object] | None:
    """Return what the server reports of its replication; None for a server that has none.

    PostgreSQL: ``required`` standbys that confirm each commit, and ``standbys`` (``name``, ``state``, ``sync_state``,
    ``lag_s``; the last three are None for a user who is not a member of ``pg_monitor``, or where there is no lag).
    Galera: ``size`` of the cluster, its ``status``, ``state`` of this node, ``paused`` (share of the time).
    """
    if connection.dialect.name == "postgresql":
        names = connection.execute(_REQUIRED).scalar_one()
        standbys = [dict(row) for row in connection.execute(_STANDBYS).mappings()]
        return {"required": required(names), "standbys": standbys} if names or standbys else None
    if connection.dialect.name == "mysql":
        found = {row.variable_name.lower(): row.variable_value for row in connection.execute(_WSREP)}
        if int(found.get("wsrep_cluster_size") or 0):
            return {
                "size": int(found["wsrep_cluster_size"]),
                "status": found["wsrep_cluster_status"],
                "state": found["wsrep_local_state_comment"],
                "paused": float(found["wsrep_flow_control_paused"]),
            }
    return None


def required(standby_names: str) -> int:
    """Return how many standbys confirm each commit by ``synchronous_standby_names``."""
    if not standby_names.strip():
        return 0
    number = _NUMBER.match(standby_names)
    return int(number[1]) if number else 1
