# SPDX-License-Identifier: Apache-2.0
"""The change feed: what a scheduler reads, as differences.

Schedulers read it before each decision, and commands that plan read it once. ``engine`` explains why it misses none.
"""

from __future__ import annotations

import dataclasses
import datetime
import time
from collections.abc import Callable, Sequence
from typing import Generic, cast

import sqlalchemy as sa
from typing_extensions import TypeVar

from fleet.clock import Clock, seconds, utcnow
from fleet.db.engine.database import Database
from fleet.db.feed import feed_queries as queries
from fleet.db.hosts import aggregates, flavor_mix
from fleet.ledger_identity import LedgerIdentity
from fleet.objects.feed_rows import ShownInstance, ShownNode, ShownPlace, ShownService, ShownThing
from fleet.objects.flavor_mix import FlavorMix

#: Heartbeats are read at most this often: liveness is counted in tens of seconds. In a large fleet the period is a second
#: longer for every HEARTBEATS_A_SECOND of them, so that the feed does not spend its time on heartbeats.
HEARTBEAT_PERIOD = seconds(1)
HEARTBEATS_A_SECOND = 10_000
#: Because of clock skew and the length of a transaction, a heartbeat may be older than one that was read already.
HEARTBEAT_OVERLAP = seconds(5)


@dataclasses.dataclass(frozen=True)
class ChangedAggregate:
    """An aggregate as it is now. A deleted one has only its ``id``."""

    id: int
    name: str
    hosts: Sequence[str]
    metadata: dict[str, str]
    deleted: bool = False
    uuid: str | None = None


#: Rows of places and of things. Those of storage are named: ``Changes[ShownPool, ShownVolume]``.
PlaceT = TypeVar("PlaceT", bound=ShownPlace, default=ShownNode, covariant=True)
ThingT = TypeVar("ThingT", bound=ShownThing, default=ShownInstance, covariant=True)

Result = TypeVar("Result")


@dataclasses.dataclass(frozen=True)
class Changes(Generic[PlaceT, ThingT]):
    """The changes since a generation. If ``full``, the complete state instead: what is not in it is deleted.

    ``feed_queries`` names the columns. ``heartbeats`` are ``(host, last_seen_up)`` pairs, not counted by generations.
    """

    generation: int
    full: bool = False
    nodes: Sequence[PlaceT] = ()
    services: Sequence[ShownService] = ()
    aggregates: Sequence[ChangedAggregate] = ()
    instances: Sequence[ThingT] = ()
    heartbeats: Sequence[tuple[str, datetime.datetime]] = ()
    #: The flavor mix, if it has changed.
    mix: FlavorMix | None = None


#: What a feed of any domain shows
Shown = Changes[ShownPlace, ShownThing]


class ChangeFeed(Generic[PlaceT, ThingT]):
    """Reads changes for one cache. Not for use by several threads at once.

    :param retry: False to raise at once if the database is away
    :param ledger: learns the identity of the database; if that changes, the feed reads everything again
    :param note_time: called with the time of the database, and the seconds that the statement took
    :param of: what to read; by default compute nodes and instances
    :param with_images: also read the image properties of instances, as ``image_properties``. A function is called for
        each read; when its answer changes, the feed reads everything again
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = utcnow,
        with_images: bool | Callable[[], bool] = False,
        retry: bool = True,
        ledger: LedgerIdentity | None = None,
        note_time: Callable[[datetime.datetime, float], object] = lambda now, took_s: None,
        of: queries.FeedQueries | None = None,
    ) -> None:
        self._note_time = note_time
        self._ledger = ledger or LedgerIdentity()
        self._newest, self._snapshot = database.reader(in_snapshot=False), database.reader(in_snapshot=True)
        self._attempt = database.retried(_once) if retry else _once
        self._given = of
        self._with_images = with_images if callable(with_images) else lambda: bool(with_images)
        self._of = self._wanted()
        #: The queries of the last read that has succeeded.
        self._read_of: queries.FeedQueries | None = None
        self._clock = clock
        #: Whether the last read found nothing new. The next one is then likely to find nothing as well.
        self._at_rest = False
        #: How many connections had been lost when everything was read.
        self._lost = 0
        self._heartbeats_read: datetime.datetime | None = None
        self._heartbeat_period = HEARTBEAT_PERIOD
        self._newest_heartbeat: datetime.datetime | None = None
        self._mix_version: int | None = None

    def read(self, since: int) -> Changes[PlaceT, ThingT]:
        """All changes after generation ``since``, in one snapshot. 0, or a generation newer than the newest, reads all."""
        self._of = self._wanted()
        if self._read_of not in (None, self._of):
            since = 0
        found = self._attempt(self._read_cheaply, since)
        self._read_of = self._of
        return found

    def _wanted(self) -> queries.FeedQueries:
        return self._given or (queries.MACHINES_WITH_IMAGES if self._with_images() else queries.MACHINES)

    def read_host(self, host: str) -> Changes[PlaceT, ThingT]:
        """The complete state of one host, in one snapshot, without heartbeats."""
        return self._attempt(self._snapshot.read, self._read_host, host)

    def _read_host(self, connection: sa.Connection, host: str) -> Changes[PlaceT, ThingT]:
        def there(of: queries.TableQueries) -> Sequence[object]:
            return connection.execute(of.of_host, {"of_host": host}).all()

        return Changes(
            generation=generation(connection),
            nodes=cast("Sequence[PlaceT]", there(self._of.nodes)),
            services=cast("Sequence[ShownService]", there(self._of.services)),
            instances=cast("Sequence[ThingT]", there(self._of.instances)),
        )

    def _read_cheaply(self, since: int) -> Changes[PlaceT, ThingT]:
        if since and not self._heartbeats_due():
            followed = self._newest.read(self._follow, since)
            if followed is not None:
                return followed
        return self._snapshot.read(self._read, since)

    def _follow(self, connection: sa.Connection, since: int) -> Changes[PlaceT, ThingT] | None:
        """Read the changed tables, one statement each and no transaction. If all statements see the same generation, no
        commit lies between them, and they are one snapshot.

        None if they do not, if aggregates have changed, if a connection was lost, or if an older program has not noted
        which tables have changed.
        """
        if self._has_lost_a_connection():
            return None
        if self._at_rest and queries.NEWEST_OF.rows(connection, 1)[0].value == since:
            return Changes(since)

        def changed(of: queries.TableQueries) -> Sequence[queries.Dated]:
            return of.with_generation.rows(connection, since)

        nodes = self._of.nodes.with_generation.rows(connection, since)
        newest = nodes[0]
        self._at_rest = newest.value == since
        if newest.noted != newest.value:
            return None
        services = changed(self._of.services) if _has(newest, queries.SERVICES, since) else ()
        instances = changed(self._of.instances) if _has(newest, self._of.instances.table, since) else ()
        whole = all(rows[0].value == newest.value for rows in (services, instances) if rows)
        if newest.value < since or not whole or _has(newest, queries.AGGREGATES, since):
            return None
        return Changes(
            newest.value,
            nodes=cast("Sequence[PlaceT]", _rows(nodes)),
            services=cast("Sequence[ShownService]", _rows(services)),
            instances=cast("Sequence[ThingT]", _rows(instances)),
        )

    def _read(self, connection: sa.Connection, since: int) -> Changes[PlaceT, ThingT]:
        began = time.monotonic()
        newest = cast("queries.Newest", connection.execute(self._of.newest).one())
        self._note_time(newest.now, time.monotonic() - began)
        if self._ledger.uuid is not None and newest.ledger not in (None, self._ledger.uuid):
            # The generations of another ledger cannot be compared with ours.
            since = 0
        if self._has_lost_a_connection():
            # A crash of the server may have lost early commits. Their generations are then given to other changes.
            since = 0
        self._ledger.learn(newest.ledger)
        heartbeats = self._read_heartbeats(connection)
        full = since == 0 or since > newest.value
        mix = None
        if newest.mix is not None and (full or newest.mix != self._mix_version):
            mix, self._mix_version = flavor_mix.read(connection), newest.mix
        self._lost = self._connections_lost()
        if newest.value == since:
            return Changes(newest.value, heartbeats=heartbeats, mix=mix)
        newer = 0 if full else since

        def changed(of: queries.TableQueries) -> Sequence[object]:
            if not _has(newest, of.table, newer):
                return []
            return connection.execute(of.live if full else of.changed, {"newer": newer}).all()

        return Changes(
            generation=newest.value,
            full=full,
            nodes=cast("Sequence[PlaceT]", changed(self._of.nodes)),
            services=cast("Sequence[ShownService]", changed(self._of.services)),
            aggregates=_changed_aggregates(connection, newer, full) if _has(newest, queries.AGGREGATES, newer) else [],
            instances=cast("Sequence[ThingT]", changed(self._of.instances)),
            heartbeats=heartbeats,
            mix=mix,
        )

    def _has_lost_a_connection(self) -> bool:
        return self._connections_lost() != self._lost

    def _connections_lost(self) -> int:
        return self._newest.lost + self._snapshot.lost

    def _heartbeats_due(self) -> bool:
        """Return True after the period, and after the clock has gone back."""
        if self._heartbeats_read is None:
            return True
        return not seconds(0) <= self._clock() - self._heartbeats_read < self._heartbeat_period

    def _read_heartbeats(self, connection: sa.Connection) -> list[tuple[str, datetime.datetime]]:
        if not self._heartbeats_due():
            return []
        now, read, newest = self._clock(), self._heartbeats_read, self._newest_heartbeat
        if read is None or newest is None or now < read - HEARTBEAT_OVERLAP:
            # Since the clock has gone back, new heartbeats have earlier times than those that were read.
            found = connection.execute(self._of.all_heartbeats)
        else:
            found = connection.execute(self._of.new_heartbeats, {"after": newest - HEARTBEAT_OVERLAP})
        heartbeats = [(row.host, row.last_seen_up) for row in found]
        if heartbeats:
            # A heartbeat from before the clock went back may be in the future; those of other hosts come before it.
            self._newest_heartbeat = min(now, max(seen for _host, seen in heartbeats))
        self._heartbeats_read = now
        self._heartbeat_period = HEARTBEAT_PERIOD + seconds(len(heartbeats) / HEARTBEATS_A_SECOND)
        return heartbeats


def _once(read: Callable[..., Result], *args: object) -> Result:
    return read(*args)


def generation(connection: sa.Connection) -> int:
    """The generation of the newest commit."""
    newest: int = connection.execute(queries.GENERATION).scalar_one()
    return newest


def _has(newest: queries.Generation, table: sa.Table, newer: int) -> bool:
    """Return True if ``table`` has a change after ``newer``."""
    return (getattr(newest, table.name) or 0) > newer


def _rows(dated: Sequence[queries.Dated]) -> Sequence[queries.Dated]:
    return dated if dated and dated[0].row_key is not None else ()


def _changed_aggregates(connection: sa.Connection, newer: int, full: bool) -> list[ChangedAggregate]:
    live = aggregates.list_all(connection, newer_than=newer)
    changed = [ChangedAggregate(each.id, each.name, each.hosts, each.metadata) for each in live]
    if not full:
        changed += [
            ChangedAggregate(key, "", (), {}, deleted=True) for key in aggregates.deleted_since(connection, newer)
        ]
    return changed
