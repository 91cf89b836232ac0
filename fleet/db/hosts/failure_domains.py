# SPDX-License-Identifier: Apache-2.0
"""The failure domain of each host: the value of its label, such as ``rack``, or else of the metadata of its aggregates.

Proofs of promises count domains by the same rule (``scheduler.compute.planning.losses.promised_losses``). Called by
modules of :mod:`conductor_stub.recovery`.
"""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from fleet.db.engine.database import Transaction
from fleet.db.hosts import aggregates, labels


def of_hosts(
    connection: Transaction | sa.Connection, label: str, hosts: Collection[str] | None = None
) -> dict[str, str]:
    """Return the domains by host, without the hosts that have none. Of several aggregates the smallest value counts.

    :param hosts: None: all
    """
    found: dict[str, str] = {}
    named = sorted(((each.metadata[label], each.hosts) for each in aggregates.having(connection, label)), reverse=True)
    for value, inside in named:
        found.update((host, value) for host in inside if value and (hosts is None or host in hosts))
    own = labels.of_hosts(connection, hosts)
    return found | {host: of_host[label] for host, of_host in own.items() if of_host.get(label)}
