# SPDX-License-Identifier: Apache-2.0
"""Database privileges of each service: the scheduler reads some tables, the conductor reads and writes rows.

Called by :mod:`fleet_cli.manage`. Only the owner, as which ``fleet-manage`` runs, changes tables. Agents have no
access to the database.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fleet.db.tables import models

#: Revision of the schema. Alembic creates this table.
_SCHEMA = "alembic_version"
#: Tables that the change feed reads, and the schema's version.
SCHEDULER_READS = (
    "aggregate_hosts",
    "aggregate_metadata",
    "aggregates",
    "build_requests",
    "compute_nodes",
    "flavor_mix",
    "generations",
    "instances",
    "services",
    "storage_pools",
    "tolerances",
    "volume_types",
    "volumes",
    _SCHEMA,
)
CONDUCTOR_CHANGES = tuple(sorted(models.METADATA.tables))


def postgresql(database: str, conductor: str, scheduler: str) -> list[str]:
    """Statements for the owner, connected to ``database``. The roles exist already."""
    return [
        "REVOKE CREATE ON SCHEMA public FROM PUBLIC",
        f'GRANT CONNECT ON DATABASE "{database}" TO "{conductor}", "{scheduler}"',
        f'GRANT USAGE ON SCHEMA public TO "{conductor}", "{scheduler}"',
        f'GRANT SELECT ON {", ".join(SCHEDULER_READS)} TO "{scheduler}"',
        f'ALTER ROLE "{scheduler}" SET default_transaction_read_only = on',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON {", ".join(CONDUCTOR_CHANGES)} TO "{conductor}"',
        f'GRANT SELECT ON {_SCHEMA} TO "{conductor}"',
        f'GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO "{conductor}"',
    ]


def mariadb(database: str, conductor: str, scheduler: str) -> list[str]:
    """Statements for an administrator. The users exist already, with the hosts that they connect from."""
    return [
        *(f"GRANT SELECT ON `{database}`.`{table}` TO {_account(scheduler)}" for table in SCHEDULER_READS),
        *(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON `{database}`.`{table}` TO {_account(conductor)}"
            for table in CONDUCTOR_CHANGES
        ),
        f"GRANT SELECT ON `{database}`.`{_SCHEMA}` TO {_account(conductor)}",
    ]


def _account(name: str) -> str:
    """``user@host``. The default is any host."""
    user, _, host = name.partition("@")
    return f"'{user}'@'{host or '%'}'"


#: (database, role of the conductor, role of the scheduler) -> statements.
BY_ENGINE: dict[str, Callable[[str, str, str], Sequence[str]]] = {"postgresql": postgresql, "mariadb": mariadb}
