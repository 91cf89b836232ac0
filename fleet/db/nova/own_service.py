# SPDX-License-Identifier: Apache-2.0
"""The row of a scheduler in nova's table ``services``, which nova's list of services shows. Nothing else of nova is written.

``scheduler.nova.heartbeat`` calls it.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from oslo_utils import uuidutils

from fleet.clock import Clock
from fleet.db.connection.options import USUAL, Limits
from fleet.db.engine import failures
from fleet.db.nova import engine

#: The name by which nova's list knows schedulers, and their topic.
BINARY, TOPIC = "nova-scheduler", "scheduler"
_TIMES = ("created_at", "updated_at", "last_seen_up")
_VALUES = ("host", "binary", "topic", "report_count", "disabled", "forced_down", "version", "uuid", "deleted")
_ROWS = sa.table("services", *(sa.column(name, sa.DateTime) for name in _TIMES), *(sa.column(name) for name in _VALUES))
_LIVE = sa.and_(_ROWS.c.binary == BINARY, _ROWS.c.deleted == 0)


class OwnService:
    """Not for use by several threads at once.

    :param url: of the database that nova-scheduler's ``[database] connection`` names, with a role that may read, insert and
        update its table ``services``
    :param host: names the row
    :param within: limits of the waiting for its server
    :raises errors.ConfigError: the URL is invalid, or its driver is missing
    """

    def __init__(self, url: str, host: str, clock: Clock, within: Limits = USUAL) -> None:
        self._engine = engine.opened(url, "[nova] service_connection", within)
        self._host = host
        self._clock = clock

    def beat(self) -> None:
        """Report that the service is alive; make its row if there is none. :raises errors.DatabaseError:"""
        caught = failures.caught(self._engine)
        try:
            with self._engine.begin() as connection:
                self._beat(connection, self._clock())
            return
        except caught as failure:
            typed = failures.typed(failure, self._engine.url)
        raise typed

    def dispose(self) -> None:
        self._engine.dispose()

    def _beat(self, connection: sa.Connection, now: datetime.datetime) -> None:
        # nova asks for the smallest version of its services: one that is too small would switch features off. It grows
        # with the others' when nova is upgraded.
        newest = connection.scalar(sa.select(sa.func.max(_ROWS.c.version)).where(_ROWS.c.deleted == 0)) or 0
        own = sa.update(_ROWS).where(_LIVE, _ROWS.c.host == self._host)
        counted = own.values(report_count=_ROWS.c.report_count + 1, last_seen_up=now, updated_at=now, version=newest)
        if connection.execute(counted).rowcount:
            return
        connection.execute(
            sa.insert(_ROWS).values(
                created_at=now,
                last_seen_up=now,
                host=self._host,
                binary=BINARY,
                topic=TOPIC,
                report_count=0,
                disabled=sa.false(),
                forced_down=sa.false(),
                version=newest,
                uuid=uuidutils.generate_uuid(),
                deleted=0,
            )
        )
