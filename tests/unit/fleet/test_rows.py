# SPDX-License-Identifier: Apache-2.0
"""The classes of rows agree with the tables: columns, types and which values may be None."""

from __future__ import annotations

import datetime
import importlib
import pkgutil
import re
import types
import typing

import pytest
import sqlalchemy as sa

from fleet.db import tables
from fleet.db.tables import base, models
from tests import unordered_statements

#: A class and its table have one name, but for these.
OTHERWISE_NAMED = {
    "ActRow": models.administrative_acts,
    "EventRow": models.instance_events,
    "FaultRow": models.instance_faults,
    "GroupRow": models.instance_groups,
    "GuestLoadsRow": models.guest_loads,
    "KeyPairRow": models.project_key_pairs,
    "MetadataRow": models.aggregate_metadata,
    "NodeRow": models.compute_nodes,
    "PoolRow": models.storage_pools,
    "QueuedRow": models.queued_builds,
    "RoomQueueRow": models.room_queue,
    "FlavorMixRow": models.flavor_mix,
    "AttachmentRow": models.volume_attachments,
    "VolumeEventRow": models.volume_events,
}


#: Tables of which the services read single columns, or columns beside those of another table, which have classes there.
#: ``fleet-manage db purge`` exports whole rows as they are.
WITHOUT_A_CLASS = {
    models.addresses,
    models.aggregate_hosts,
    models.boot_data,
    models.build_requests,
    models.flavor_projects,
    models.generations,
    models.instance_group_members,
    models.key_pairs,
    models.maintenance_guests,
    models.message_outcomes,
    models.network_projects,
    models.queue_turns,
    models.rebuilt_boot_data,
    models.taken_signatures,
    models.volume_requests,
    models.volume_type_projects,
}


def _rows() -> dict[str, type]:
    found_modules = pkgutil.walk_packages(tables.__path__, f"{tables.__name__}.")
    modules = [importlib.import_module(each.name) for each in found_modules]
    found = {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, type) and name.endswith("Row") and value.__module__ == module.__name__
    }
    return {name: value for name, value in found.items() if value not in (base.Row, base.TrackedRow)}


ROWS = _rows()


def _table(name: str) -> sa.Table:
    """``RecoveryGuestRow`` is of ``recovery_guests``."""
    if name in OTHERWISE_NAMED:
        return OTHERWISE_NAMED[name]
    one = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Row")).lower()
    return models.METADATA.tables[f"{one[:-1]}ies" if one.endswith("y") else f"{one}s"]


def _of_column(column: sa.Column) -> tuple[object, bool]:
    """The type of the values, and whether a value may be None."""
    kind = "JSON" if isinstance(column.type, sa.JSON) else column.type.python_type
    return kind, bool(column.nullable)


def _of_annotation(annotation: object) -> tuple[object, bool]:
    unions = types.UnionType, typing.Union
    parts = typing.get_args(annotation) if typing.get_origin(annotation) in unions else (annotation,)
    (kind,) = (each for each in parts if each is not types.NoneType)
    if typing.get_origin(kind) is typing.Literal:
        kind = type(typing.get_args(kind)[0])
    plain = kind in (str, int, float, bool, datetime.datetime)
    return kind if plain else "JSON", types.NoneType in parts


@pytest.mark.parametrize("name", sorted(ROWS))
def test_a_row_has_the_columns_of_its_table(name: str) -> None:
    """A column that is added, renamed or may be NULL from now on must be so in the class, too."""
    expected = {column.name: _of_column(column) for column in _table(name).columns}
    hints = typing.get_type_hints(ROWS[name])
    assert expected == {column: _of_annotation(hint) for column, hint in hints.items()}


def test_each_table_whose_rows_are_read_has_a_class() -> None:
    classless = set(models.METADATA.tables.values()) - {_table(name) for name in ROWS}
    assert classless == WITHOUT_A_CLASS


def test_no_constant_statement_reads_rows_without_a_class() -> None:
    """Rows of tables of two columns are read as pairs."""
    read = {
        (name, table.name)
        for name, statement in unordered_statements.constants().items()
        for table in WITHOUT_A_CLASS
        if len(table.columns) > 2 and set(table.columns) <= {*statement.selected_columns}
    }
    assert not read
