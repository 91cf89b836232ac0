# SPDX-License-Identifier: Apache-2.0
"""Lists of volumes and snapshots, in answers of bounded size: users choose how much a volume has stored with it.

Called by the modules beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson

from fleet import errors
from fleet.db.engine.database import Connection
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping, JSONObject

#: Of one answer, about. A broker carries more, also after the text is escaped.
MOST_BYTES = 6 * 2**20
#: Rows that are read at once.
_PART = 100
#: Returns rows as users see them.
View = Callable[[Connection, Sequence[VolumeRow]], list[JSONObject]]


def read(
    connection: Connection,
    kind: volumes.Kind,
    filters: JSONMapping,
    limit: int | None,
    marker: str | None,
    shown: View,
) -> list[JSONObject]:
    """Return those after the marker, oldest first.

    :param marker: uuid of the last one that the caller has
    :raises errors.InvalidInput: they have more than MOST_BYTES
    :raises errors.NotFound: an unknown marker
    """
    found: list[JSONObject] = []
    size = 0
    while True:
        wanted = _PART if limit is None else min(_PART, limit - len(found))
        rows = volumes.list_all(connection, kind, wanted, marker, **filters)
        for each in shown(connection, rows):
            size += len(orjson.dumps(each))
            if size > MOST_BYTES and found:
                largest = f"an answer has at most {MOST_BYTES // 2**20} MiB"
                reason = f"must be at most {len(found)} here: {largest}. Ask for the next ones with marker"
                raise errors.InvalidInput(field="limit", reason=reason)
            found.append(each)
        if len(rows) < wanted or len(found) == limit:
            return found
        marker = rows[-1].uuid
