# SPDX-License-Identifier: Apache-2.0
"""The change feed: everything a scheduler knows, as differences (see ``engine`` for why none is ever missed)."""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from fleet.clock import Clock, seconds, utcnow
from fleet.db import aggregates
from fleet.db import feed_queries as ask
from fleet.db.engine import Database
from fleet.db.prepared import Prepared
from fleet.ledger_identity import LedgerIdentity

#: Heartbeats are read this often at most; they change liveness, which is counted in tens of seconds. Of a large fleet
#: more are read at a time, and it is done a second later for each so many of them: else it would do little besides.
HEARTBEAT_PERIOD = seconds(1)
HEARTBEATS_A_SECOND = 10_000
#: Two daemons' clocks and a transaction's length may put a heartbeat behind one already read.
HEARTBEAT_OVERLAP = seconds(5)


@dataclasses.dataclass(frozen=True)
class ChangedAggregate:
    """An aggregate as it is now; only ``id`` matters of a deleted one."""

    id: int
    name: str
    hosts: Sequence[str]
    metadata: dict[str, str]
    deleted: bool = False


@dataclasses.dataclass(frozen=True)
class Changes:
    """What changed since a generation. ``full``: the complete state instead, and what is not in it is gone.

    Rows carry the columns named above; ``heartbeats`` are ``(host, last_seen_up)`` pairs, not counted by generations.
    """

    generation: int
    full: bool = False
    nodes: Sequence[Any] = ()
    services: Sequence[Any] = ()
    aggregates: Sequence[ChangedAggregate] = ()
    instances: Sequence[Any] = ()
    heartbeats: Sequence[tuple[str, datetime.datetime]] = ()


class ChangeFeed:
    """Reads changes for one cache. Not for use by several threads at once.

    :param retry: False for a reader that has something better to do than to wait for a database that is away
    :param ledger: learns the database's identity; one that has another by now is read anew
    :param tell_time: called with the database's time, and the seconds that its statement took
    :param with_images: also the properties of the images that instances were made from, as ``image_properties``
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = utcnow,
        with_images: bool = False,
        retry: bool = True,
        ledger: LedgerIdentity | None = None,
        tell_time: Callable[[datetime.datetime, float], object] = lambda now, took_s: None,
    ) -> None:
        self._tell_time = tell_time
        self._ledger = ledger or LedgerIdentity()
        self._newest, self._snapshot = database.reader(in_snapshot=False), database.reader(in_snapshot=True)
        self._ahead = database.ahead()
        self._attempt = database.retried(_at_once) if retry else _at_once
        self._of_instances = ask.OF_PICTURED_INSTANCES if with_images else ask.OF_INSTANCES
        self._clock = clock
        #: Whether the last reading found nothing new: then the next is likely to find nothing, too.
        self._at_rest = False
        self._heartbeats_read: datetime.datetime | None = None
        self._heartbeat_period = HEARTBEAT_PERIOD
        self._newest_heartbeat: datetime.datetime | None = None

    def ask(self, since: int) -> None:
        """Send what :meth:`read` is to ask first, if it comes next: it tells all that is committed by now."""
        if since and not self._heartbeats_due():
            self._ahead.ask(*self._first_question(since))

    def forget(self) -> None:
        """What was asked is not to be read any more: it is too old for who comes next."""
        self._ahead.forget()

    def _first_question(self, since: int) -> tuple[Prepared, int]:
        return (ask.NEWEST_OF, 1) if self._at_rest else (ask.OF_NODES.dated, since)

    def _first_answer(self, connection: sa.Connection, question: Prepared, number: int) -> Sequence[Any]:
        return self._ahead.answer(question, number) or question.rows(connection, number)

    def read(self, since: int) -> Changes:
        """Everything after generation ``since``, in one snapshot; 0 (or a generation from before a restore) is all."""
        return self._attempt(self._read_cheaply, since)

    def read_host(self, host: str) -> Changes:
        """All that is known of one host, in one snapshot: what is not in it is not there. Heartbeats are left out."""
        return self._attempt(self._snapshot.read, self._read_host, host)

    def _read_host(self, connection: sa.Connection, host: str) -> Changes:
        def there(queries: ask.Queries) -> Sequence[sa.Row]:
            return connection.execute(queries.of_host, {"of_host": host}).all()

        return Changes(
            generation=generation(connection),
            nodes=there(ask.OF_NODES),
            services=there(ask.OF_SERVICES),
            instances=there(self._of_instances),
        )

    def _read_cheaply(self, since: int) -> Changes:
        if since and not self._heartbeats_due():
            followed = self._newest.read(self._follow, since)
            if followed is not None:
                return followed
        return self._snapshot.read(self._read, since)

    def _follow(self, connection: sa.Connection, since: int) -> Changes | None:
        """What has changed, by a statement for each table that has changed and no transaction around them: if all have seen
        the same generation, no commit lies between them, and they are one snapshot. None if not, if that is not all, or
        if it is not noted which tables those are.
        """
        if self._at_rest and self._first_answer(connection, ask.NEWEST_OF, 1)[0].value == since:
            return Changes(since)

        def changed(queries: ask.Queries) -> Sequence[Any]:
            return queries.dated.rows(connection, since)

        nodes = self._first_answer(connection, ask.OF_NODES.dated, since)
        newest = nodes[0]
        self._at_rest = newest.value == since
        if newest.noted != newest.value:
            return None
        services = changed(ask.OF_SERVICES) if _has(newest, ask.SERVICES, since) else ()
        instances = changed(self._of_instances) if _has(newest, ask.INSTANCES, since) else ()
        whole = all(rows[0].value == newest.value for rows in (services, instances) if rows)
        if newest.value < since or not whole or _has(newest, ask.AGGREGATES, since):
            return None
        return Changes(newest.value, nodes=_there(nodes), services=_there(services), instances=_there(instances))

    def _read(self, connection: sa.Connection, since: int) -> Changes:
        began = time.monotonic()
        newest = connection.execute(ask.NEWEST).one()
        self._tell_time(newest.now, time.monotonic() - began)
        if self._ledger.uuid is not None and newest.ledger not in (None, self._ledger.uuid):
            # Its generations have nothing to do with those that are known.
            since = 0
        self._ledger.learn(newest.ledger)
        heartbeats = self._read_heartbeats(connection)
        if newest.value == since:
            return Changes(newest.value, heartbeats=heartbeats)
        full = since == 0 or since > newest.value
        newer = 0 if full else since

        def changed(queries: ask.Queries) -> Sequence[sa.Row]:
            if not _has(newest, queries.table, newer):
                return []
            return connection.execute(queries.there if full else queries.changed, {"newer": newer}).all()

        return Changes(
            generation=newest.value,
            full=full,
            nodes=changed(ask.OF_NODES),
            services=changed(ask.OF_SERVICES),
            aggregates=_changed_aggregates(connection, newer, full) if _has(newest, ask.AGGREGATES, newer) else [],
            instances=changed(self._of_instances),
            heartbeats=heartbeats,
        )

    def _heartbeats_due(self) -> bool:
        return self._heartbeats_read is None or self._clock() - self._heartbeats_read >= self._heartbeat_period

    def _read_heartbeats(self, connection: sa.Connection) -> list[tuple[str, datetime.datetime]]:
        if not self._heartbeats_due():
            return []
        now = self._clock()
        if self._newest_heartbeat is not None:
            found = connection.execute(ask.NEW_HEARTBEATS, {"after": self._newest_heartbeat - HEARTBEAT_OVERLAP})
        else:
            found = connection.execute(ask.ALL_HEARTBEATS)
        heartbeats = [(row.host, row.last_seen_up) for row in found]
        if heartbeats:
            self._newest_heartbeat = max(seen for _host, seen in heartbeats)
        self._heartbeats_read = now
        self._heartbeat_period = HEARTBEAT_PERIOD + seconds(len(heartbeats) / HEARTBEATS_A_SECOND)
        return heartbeats


def _at_once(read: Callable[..., Changes], *args: Any) -> Changes:
    return read(*args)


def generation(connection: sa.Connection) -> int:
    """What the newest committed change has."""
    return connection.execute(ask.GENERATION).scalar_one()


def _has(newest: sa.Row, table: sa.Table, newer: int) -> bool:
    """Whether ``table`` has a change after ``newer``."""
    return (getattr(newest, table.name) or 0) > newer


def _there(dated: Sequence[Any]) -> Sequence[Any]:
    return dated if dated and dated[0].row_key is not None else ()


def _changed_aggregates(connection: sa.Connection, newer: int, full: bool) -> list[ChangedAggregate]:
    live = aggregates.list_all(connection, newer_than=newer)
    changed = [ChangedAggregate(each.id, each.name, each.hosts, each.metadata) for each in live]
    if not full:
        changed += [
            ChangedAggregate(key, "", (), {}, deleted=True) for key in aggregates.deleted_since(connection, newer)
        ]
    return changed
