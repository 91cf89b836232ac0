# SPDX-License-Identifier: Apache-2.0
"""The files of a release: the rows of a ledger, and messages with the answers that the release gave."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import utcnow

HERE = pathlib.Path(__file__).parent
LEDGER, MESSAGES = "ledger.json", "messages.json"
#: Alembic's own table.
VERSION = "alembic_version"
_TIME = "time"


def releases() -> list[str]:
    """Return the releases whose files are here, the oldest first."""
    return sorted(path.parent.name for path in HERE.glob(f"*/{LEDGER}"))


@dataclasses.dataclass(frozen=True)
class Message:
    """:param holder: of the key that it is signed with
    :param outcome: the name of the error that it was answered with; "" for an answer
    """

    holder: str
    project: str | None
    user: str
    is_admin: bool
    topic: str
    namespace: str | None
    method: str
    version: str
    arguments: Mapping[str, Any]
    outcome: str


@dataclasses.dataclass(frozen=True)
class Ledger:
    """:param revision: of its schema; ``recorded_at``: the moment that its times are relative to
    :param rows: by table; NULL is left out
    """

    revision: str
    recorded_at: datetime.datetime
    rows: Mapping[str, Sequence[Mapping[str, Any]]]

    def fill(self, connection: sa.Connection) -> None:
        """Replace what a new ledger of this revision has, as if the rows had been written just now."""
        age = utcnow() - self.recorded_at
        tables = sa.MetaData()
        tables.reflect(connection)
        for table in tables.sorted_tables:
            if table.name in self.rows:
                connection.execute(table.delete())
            for row in self.rows.get(table.name, ()):
                values = {name: _stored(table.c[name], value, age) for name, value in row.items()}
                connection.execute(table.insert().values(values))


def _stored(column: sa.Column[Any], value: Any, age: datetime.timedelta) -> Any:
    if isinstance(value, Mapping) and set(value) == {_TIME}:
        return datetime.datetime.fromisoformat(value[_TIME]) + age
    # MariaDB's JSON is a text with a check.
    is_text = isinstance(value, Mapping | list) and not isinstance(column.type, sa.JSON)
    return json.dumps(value) if is_text else value


def read_rows(connection: sa.Connection) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of all tables, in a form that JSON has, in the order of their keys."""
    tables = sa.MetaData()
    tables.reflect(connection)
    return {
        table.name: [
            {name: _kept(table.c[name], value) for name, value in row.items() if value is not None}
            for row in connection.execute(sa.select(table).order_by(*table.primary_key)).mappings()
        ]
        for table in tables.sorted_tables
        if table.name != VERSION
    }


def _kept(column: sa.Column[Any], value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return {_TIME: value.isoformat()}
    return int(value) if isinstance(value, bool) and not isinstance(column.type, sa.Boolean | sa.JSON) else value


def ledger(release: str) -> Ledger:
    found = json.loads((HERE / release / LEDGER).read_text())
    at = datetime.datetime.fromisoformat(found["recorded_at"])
    return Ledger(found["revision"], at, found["rows"])


def messages(release: str) -> list[Message]:
    return [Message(**each) for each in json.loads((HERE / release / MESSAGES).read_text())]


def write(release: str, kept: Ledger, sent: Sequence[Message]) -> None:
    directory = HERE / release
    directory.mkdir(exist_ok=True)
    found = {"revision": kept.revision, "recorded_at": kept.recorded_at.isoformat(), "rows": kept.rows}
    (directory / LEDGER).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    lines = ",\n".join(json.dumps(dataclasses.asdict(each), sort_keys=True) for each in sent)
    (directory / MESSAGES).write_text(f"[\n{lines}\n]\n")
