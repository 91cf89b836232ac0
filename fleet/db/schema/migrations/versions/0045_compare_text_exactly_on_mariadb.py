# SPDX-License-Identifier: Apache-2.0
"""Compare text on MariaDB as the other databases do: letters in another case, accents and final spaces count.

Tables had the collation of the database, which takes the projects "web", "Web" and "wéb" for one. A table of another
character set gets utf8mb4, too. :mod:`fleet.db.schema.migration` creates tables so from now on.

Revision ID: 0045
Revises: 0044
"""

import sqlalchemy as sa
from alembic import op

from fleet.db.schema import collation
from fleet.db.tables import models

revision = "0045"
down_revision = "0044"
branch_labels = None
depends_on = None

#: Foreign keys between columns of text: table and column, and the table and column that it refers to.
_KEYS = (
    ("addresses", "instance_uuid", "instances", "uuid"),
    ("addresses", "network_uuid", "networks", "uuid"),
    ("boot_data", "reservation_id", "build_requests", "reservation_id"),
    ("instance_events", "instance_uuid", "instances", "uuid"),
    ("instance_faults", "instance_uuid", "instances", "uuid"),
    ("instance_group_members", "group_uuid", "instance_groups", "uuid"),
    ("instance_group_members", "instance_uuid", "instances", "uuid"),
    ("instances", "reservation_id", "build_requests", "reservation_id"),
    ("maintenance_guests", "maintenance_uuid", "maintenances", "uuid"),
    ("maintenance_hosts", "maintenance_uuid", "maintenances", "uuid"),
    ("migrations", "instance_uuid", "instances", "uuid"),
    ("network_projects", "network_uuid", "networks", "uuid"),
    ("queued_builds", "instance_uuid", "instances", "uuid"),
    ("rebuilt_boot_data", "instance_uuid", "instances", "uuid"),
    ("recovery_guests", "instance_uuid", "instances", "uuid"),
    ("recovery_guests", "recovery_uuid", "recoveries", "uuid"),
    ("recovery_steps", "recovery_uuid", "recoveries", "uuid"),
    ("volume_attachments", "instance_uuid", "instances", "uuid"),
    ("volume_attachments", "volume_uuid", "volumes", "uuid"),
    ("volume_events", "volume_uuid", "volumes", "uuid"),
    ("volume_requests", "volume_uuid", "volumes", "uuid"),
)
_INEXACT = sa.text(
    "SELECT DISTINCT table_name AS name FROM information_schema.columns WHERE table_schema = DATABASE() "
    "AND (collation_name NOT LIKE '%bin' OR character_set_name <> :characters)"
)
_KEY_NAMES = sa.text(
    "SELECT constraint_name AS name FROM information_schema.table_constraints "
    "WHERE table_schema = DATABASE() AND constraint_type = 'FOREIGN KEY'"
)


def upgrade() -> None:
    """May be interrupted: what is done already is not done again."""
    connection = op.get_bind()
    if connection.dialect.name != "mysql":
        return
    inexact = set(connection.execute(_INEXACT, {"characters": collation.CHARACTER_SET}).scalars())
    to_convert = sorted(inexact.intersection(models.METADATA.tables))
    # MariaDB converts no column of a foreign key.
    if to_convert:
        there = set(connection.execute(_KEY_NAMES).scalars())
        for table, column, _referent, _of in _KEYS:
            if (name := f"fk_{table}_{column}") in there:
                op.drop_constraint(name, table, type_="foreignkey")
    for table in to_convert:
        op.execute(f"ALTER TABLE {table} CONVERT TO {collation.clause(connection.dialect)}")
    there = set(connection.execute(_KEY_NAMES).scalars())
    for table, column, referent, of in _KEYS:
        if (name := f"fk_{table}_{column}") not in there:
            op.create_foreign_key(name, table, referent, [column], [of])
