# SPDX-License-Identifier: Apache-2.0
"""Reads the fleet and requests for commands that plan on a copy of the fleet. The commands beside it call it first."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from oslo_config import cfg

from fleet import errors
from fleet.client import connection, offers, pages
from fleet.client.calls import Calls
from fleet.db.engine.database import Database
from fleet.db.feed import domains, feed_queries
from fleet.db.feed.feed import ChangeFeed, Changes
from fleet.db.operations import tolerances
from fleet.db.schema import schema
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects.feed_rows import ShownPlace, ShownPool, ShownThing, ShownVolume
from fleet.objects.tolerance import Tolerance
from fleet.objects.whatif import Demand
from fleet.rpc import nova_broker
from fleet_cli.base import listing
from fleet_cli.base.output import progress

PlaceT = TypeVar("PlaceT", bound=ShownPlace)
ThingT = TypeVar("ThingT", bound=ShownThing)
_DATABASE = "[database] connection"
#: Entry point (conf) -> all that nova's databases show.
_OF_NOVA = "fleet.nova.state"


def state(conf: cfg.ConfigOpts, command: str) -> Changes:
    """Return everything, from the fleet's database or from nova's.

    :raises connection.CommandFailed: no database is configured
    """
    if nova_broker.is_active(conf):
        found: Changes = offers.load(_OF_NOVA)(conf)
        return _in_order(found)
    with _database(conf, command) as database:
        return _in_order(ChangeFeed(database, with_images=True).read(0))


def pools(conf: cfg.ConfigOpts, command: str) -> Changes[ShownPool, ShownVolume]:
    """Return all storage pools, and the volumes on them.

    :raises connection.CommandFailed: no database is configured, or it is nova's
    """
    if nova_broker.is_active(conf):
        raise connection.CommandFailed("volumes are not there where the scheduler serves nova")
    with _database(conf, command) as database:
        return _in_order(ChangeFeed[ShownPool, ShownVolume](database, of=feed_queries.STORAGE).read(0))


def _in_order(state: Changes[PlaceT, ThingT]) -> Changes[PlaceT, ThingT]:
    """A database returns rows in any order; a plan made twice of one fleet must be the same."""
    return dataclasses.replace(state, instances=sorted(state.instances, key=lambda each: each.uuid))


def volumes_of(conf: cfg.ConfigOpts, hosts: Iterable[str], command: str) -> Sequence[VolumeRow]:
    """Return the rows of the volumes on these backends."""
    with _database(conf, command) as database:
        return [row for host in hosts for row in database.read(volumes.list_all, host=host)]


@contextlib.contextmanager
def _database(conf: cfg.ConfigOpts, command: str) -> Iterator[Database]:
    """:raises connection.CommandFailed: no database is configured
    :raises errors.SchemaMismatch:
    """
    if not conf.database.connection:
        raise connection.CommandFailed(f"{command} reads the database: set {_DATABASE} in the configuration file")
    with Database(conf).disposed() as database:
        schema.check(database)
        yield database


def of_instance(conductor: Calls, uuid_: str) -> Demand:
    """Return the request that places an existing instance. :raises errors.NotFound: errors.Conflict:"""
    asked = conductor.operator.request_of(name=uuid_)
    return Demand(asked["request_spec"], asked["filter_properties"], [None], name=uuid_)


def of_instances(
    conductor: Calls, uuids: Sequence[str], verbose_level: int, lines: int, live: bool = False
) -> dict[str, Demand]:
    """Return the requests that place these instances, by uuid; one that does not exist any more is left out.

    :param live: of guests that can move while they run, only hosts that take them so
    """
    found: dict[str, Demand] = {}
    with progress.shown(len(uuids), "guests read", verbose_level, lines) as shown:
        for part in pages.requests(conductor.operator, uuids, live=live):
            found.update((each["uuid"], Demand.of_instance(each)) for each in part)
            shown.show(len(found), "")
    return found


def promised(conductor: Calls, state: Changes, default_zone: str) -> list[Tolerance]:
    """Return the promises of the fleet. Print those that have too many losses to prove."""
    hosts, found = sorted({node.host for node in state.nodes}), []
    for each in conductor.operator.list_tolerances():
        promise = Tolerance.from_wire(each)
        values = domains.value_of(state, promise.label) if promise.label else {}
        if promise.losses(tolerances.hosts_of(promise, hosts, state.aggregates, default_zone), values) is None:
            listing.remark(f"The promise of the {promise.scope} ({promise.what}) has too many losses to look at")
        else:
            found.append(promise)
    return found


def known(requests: Mapping[str, Demand], uuid_: str) -> Demand:
    """:raises errors.NotFound: it is not among them"""
    if uuid_ not in requests:
        raise errors.NotFound(kind="Instance", name=uuid_)
    return requests[uuid_]


def one_by_one(asked: JSONMapping, count: int) -> list[Demand]:
    """Return ``count`` requests for one instance each, from one answer of the conductor's ``request_for``."""
    return [together(asked, 1) for _number in range(count)]


def together(asked: JSONMapping, count: int) -> Demand:
    """Return one request for ``count`` instances, from one answer of the conductor's ``request_for``."""
    spec, new = asked["request_spec"], named(count)
    new["instance_properties"] = {**(spec.get("instance_properties") or {}), **new["instance_properties"]}
    return Demand({**spec, "num_instances": count, **new}, asked["filter_properties"], [None] * count)


def named(count: int) -> JSONObject:
    """Return the uuids of ``count`` new instances, as a request spec has them."""
    uuids = [str(uuid.uuid4()) for _ in range(count)]
    return {"instance_uuids": uuids, "instance_properties": {"uuid": uuids[0]}}
