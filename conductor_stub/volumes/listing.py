# SPDX-License-Identifier: Apache-2.0
"""Lists of volumes and snapshots, in answers of bounded size: users choose how much a volume has stored with it.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from conductor_stub.steps import bounded_list
from conductor_stub.steps.bounded_list import Bounds
from fleet.db.engine.database import Connection
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping

#: Of one answer, about. A broker carries more, also after the text is escaped.
MOST_BYTES = 6 * 2**20
#: Rows that are read at once.
_PART = 100
#: A row as users see it.
Shown = TypeVar("Shown", bound=bounded_list.Listed)


def read(
    connection: Connection,
    kind: volumes.Kind,
    filters: JSONMapping,
    limit: int | None,
    marker: str | None,
    shown: Callable[[Connection, Sequence[VolumeRow]], list[Shown]],
) -> list[Shown]:
    """Return those after the marker, oldest first.

    :param marker: uuid of the last one that the caller has
    :raises errors.InvalidInput: they have more than MOST_BYTES
    :raises errors.NotFound: an unknown marker
    """

    def part_of(wanted: int, after: str | None) -> list[Shown]:
        return shown(connection, volumes.list_all(connection, kind, wanted, after, **filters))

    return bounded_list.read(part_of, limit, marker, Bounds(_PART, MOST_BYTES))
