# SPDX-License-Identifier: Apache-2.0
"""Reads placement's database: what each resource provider offers, and what is taken of it.

Called by the modules beside it. The first reading reads all. Later ones compare the ids and generations of all
providers, and read those that differ. A deleted allocation changes no generation: sums of what is taken are compared
every :data:`USAGE_PERIOD_S` (5 s), and at once when a request finds no host. docs/decisions has the reason for reading
the database.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import operator
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from oslo_log import log as logging

from fleet import errors
from fleet.clock import Clock, seconds, utcnow
from fleet.db.engine.reader import Reader
from fleet.db.nova import placement_queries as queries
from fleet.db.nova.database import Connection, NovaDatabase

LOG = logging.getLogger(__name__)
#: A provider with this trait offers its resources to all providers in its aggregates.
SHARES = "MISC_SHARES_VIA_AGGREGATE"
#: Consumers older than this have no booking any more. It exceeds every sensible scheduler_booking_timeout.
_RECENT = seconds(3600)
#: What is taken is read at least this often: a deleted allocation changes no generation.
USAGE_PERIOD_S = 5.0
_FIRST = operator.itemgetter(0)


@dataclasses.dataclass(frozen=True, slots=True)
class Inventory:
    """The inventory of a provider for one resource class, in the units of the class."""

    total: int
    reserved: int
    min_unit: int
    max_unit: int
    step_size: int
    ratio: float
    used: int = 0


#: Of a class that a provider does not have: no amount fits.
NOTHING = Inventory(0, 0, 1, 0, 1, 1.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Provider:
    """A resource provider.

    :param consumers: uuids of consumers, in a first reading only of those that are new
    """

    uuid: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()
    consumers: frozenset[str] = frozenset()
    is_root: bool = True

    def inventory(self, resource_class: str) -> Inventory:
        return self.inventories.get(resource_class, NOTHING)


@dataclasses.dataclass
class ProviderNotes:
    """Notes that the feed and the requests exchange.

    :param elsewhere: resource classes that instances may take of other providers than their compute node: nested and
        sharing providers offer them
    :param traits: all names of traits that placement has; None until they are read
    :param usage_wanted: grows with each request for which the next reading is to show what has been given back
    """

    elsewhere: frozenset[str] = frozenset()
    usage_wanted: int = 0
    traits: frozenset[str] | None = None


class ProviderFeed:
    """Not for use by several threads at once.

    :param notes: kept up to date
    :param clock: decides by its time which consumers are new
    :param monotonic: paces the readings of what is taken
    """

    def __init__(
        self,
        database: NovaDatabase,
        notes: ProviderNotes,
        clock: Clock = utcnow,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reader: Reader = database.reader()
        self._notes = notes
        self._clock = clock
        self._monotonic = monotonic
        #: id → uuid, and the (id, generation) of what was read last.
        self._uuids: dict[int, str] = {}
        self._known: set[tuple[int, int]] = set()
        #: (provider, class) → amount
        self._used: dict[tuple[int, int], int] = {}
        self._usage_read_at, self._usage_served = monotonic(), notes.usage_wanted
        #: Nested and sharing providers.
        self._others: dict[str, Provider] = {}
        self._providers: dict[str, Provider] = {}
        self._names: tuple[Mapping[int, str], ...] = ({}, {}, {})
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._is_away = False

    def read(self, full: bool) -> Collection[str]:
        """Read the changes, or all; return the uuids of providers that differ, deleted ones too.

        A failure is logged once, and what is known stays: a claim that is refused because of it costs a second try.

        :raises errors.DatabaseError: nothing is known, or all was to be read
        """
        full = full or not self._known
        try:
            found: Collection[str] = self._reader.read(self._all if full else self._changes)
        except errors.DatabaseError as away:
            if full:
                raise
            if not self._is_away:
                LOG.warning("Placement's database cannot be read; inventories stay as known: %s", away.message)
            self._is_away = True
            return ()
        if self._is_away:
            LOG.info("Placement's database can be read again")
            self._is_away = False
        return found

    def of(self, uuid: str) -> Provider | None:
        """Return a provider as it was read last; None if there is none."""
        return self._providers.get(uuid)

    def close(self) -> None:
        self._reader.close()

    def _all(self, connection: Connection) -> Collection[str]:
        listed = queries.providers(connection)
        self._read_names(connection)
        details = queries.all_details(connection, self._clock() - _RECENT)
        before = self._providers
        self._providers = {each.uuid: each for each in self._made(listed, details)}
        self._uuids = {row.id: row.uuid for row in listed}
        self._known = {(row.id, row.generation) for row in listed}
        self._used = {(provider, number): int(amount) for provider, number, amount in details.used}
        self._others.clear()
        self._note(self._providers)
        return self._providers.keys() | before.keys()

    def _changes(self, connection: Connection) -> Collection[str]:
        found = queries.generations(connection)
        freed = self._usage_changed(connection)
        if found == self._known and not freed:
            return ()
        changed = {number for number, _generation in found - self._known} | freed
        gone = {number for number, _generation in self._known - found}.difference(
            number for number, _generation in found
        )
        listed = queries.providers(connection, changed)
        details = queries.details(connection, changed)
        if self._has_unknown_names(details):
            self._read_names(connection)
        self._keep_usage(changed | gone, details)
        # A provider that was made anew has its uuid under another id.
        deleted = {self._uuids.pop(number) for number in gone}
        for uuid in deleted:
            self._providers.pop(uuid, None)
        made = {each.uuid: each for each in self._made(listed, details)}
        self._providers.update(made)
        self._uuids.update((row.id, row.uuid) for row in listed)
        self._known = found
        self._note(made, deleted)
        return made.keys() | deleted

    def _read_names(self, connection: Connection) -> None:
        self._names = queries.names(connection)
        self._notes.traits = frozenset(self._names[1].values())

    def _usage_changed(self, connection: Connection) -> set[int]:
        """Return the providers whose used amounts have changed. A deleted allocation does not change their generation."""
        now = self._monotonic()
        if self._notes.usage_wanted == self._usage_served and now - self._usage_read_at < USAGE_PERIOD_S:
            return set()
        self._usage_served, self._usage_read_at = self._notes.usage_wanted, now
        found = {(provider, number): int(amount) for provider, number, amount in queries.usage(connection)}
        return {provider for (provider, _class), _amount in found.items() ^ self._used.items()}

    def _keep_usage(self, changed: Collection[int], details: queries.Details) -> None:
        for provider in changed:
            for number in self._names[0]:
                self._used.pop((provider, number), None)
        for provider, number, amount in details.used:
            self._used[provider, number] = self._used.get((provider, number), 0) + int(amount)

    def _has_unknown_names(self, details: queries.Details) -> bool:
        classes, traits, aggregates = self._names
        return (
            any(row[1] not in classes for row in details.inventories)
            or any(row[1] not in traits for row in details.traits)
            or any(row[1] not in aggregates for row in details.aggregates)
        )

    def _made(self, listed: Iterable[queries.ProviderRow], details: queries.Details) -> Iterable[Provider]:
        classes, traits, aggregates = self._names
        used: dict[tuple[int, int], int] = collections.defaultdict(int)
        for provider, number, amount in details.used:
            used[provider, number] += int(amount)
        inventories: dict[int, dict[str, Inventory]] = collections.defaultdict(dict)
        for provider, number, total, reserved, least, most, step, ratio in details.inventories:
            # A ratio of 0 leaves no room. In a row of a node 0 means that there is none.
            offered = total if ratio > 0 else reserved
            inventory = Inventory(offered, reserved, least, most, step, ratio, used.get((provider, number), 0))
            inventories[provider][classes[number]] = inventory
        of_traits, of_aggregates = self._grouped(details.traits, traits), self._grouped(details.aggregates, aggregates)
        consumers: dict[int, list[str]] = collections.defaultdict(list)
        for provider, consumer in details.consumers:
            consumers[provider].append(consumer)
        for row in listed:
            yield Provider(
                row.uuid,
                inventories.get(row.id, {}),
                of_traits.get(row.id, frozenset()),
                of_aggregates.get(row.id, frozenset()),
                frozenset(consumers.get(row.id, ())),
                row.parent_provider_id is None,
            )

    def _grouped(self, rows: Collection[tuple[int, int]], names: Mapping[int, str]) -> dict[int, frozenset[str]]:
        """Return provider → set of names. Equal sets are one object: most hosts have the same traits."""
        found = {}
        for provider, group in itertools.groupby(sorted(map(tuple, rows), key=_FIRST), _FIRST):
            named = frozenset([names[number] for _provider, number in group])
            found[provider] = self._sets.setdefault(named, named)
        return found

    def _note(self, made: Mapping[str, Provider], deleted: Collection[str] = ()) -> None:
        for uuid in [uuid for uuid in self._others if uuid in made or uuid in deleted]:
            del self._others[uuid]
        self._others.update((uuid, each) for uuid, each in made.items() if not each.is_root or SHARES in each.traits)
        self._notes.elsewhere = frozenset(name for each in self._others.values() for name in each.inventories)
