# SPDX-License-Identifier: Apache-2.0
"""Equal hosts and pools: the same one is chosen on every database, in whatever order their rows were written."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fleet.db.engine.database import Database
from fleet.db.feed import feed_queries
from fleet.db.feed.feed import ChangeFeed
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.host_manager import HostManager
from scheduler.engine import decide, pipeline
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.drivers import loading as volume_loading
from scheduler.volumes.drivers.host_manager import HostManager as PoolManager
from tests import factories
from tests.clock import FakeClock
from tests.configuration import of_scheduler
from tests.unit.scheduler.volumes import pools
from tests.worlds.conductor import Conductor

pytestmark = pytest.mark.every_database

#: In the order of code points: some databases sort letters of either case together.
HOSTS = ("Berta", "anna", "h1", "h10", "h2")
ORDERS = {"upwards": HOSTS, "downwards": HOSTS[::-1], "mixed": ("h2", "anna", "h10", "Berta", "h1")}


def ranked(asked: pipeline.Pipeline, manager: Any, request: Any) -> list[tuple[str, str | None]]:
    """The place that is chosen, then its alternates."""
    prepared = pipeline.prepare(asked, request)
    work = functools.partial(decide.decide, asked, prepared, chance=random.Random(1))
    (pick,) = manager.decide(work, ()).picks
    return [pick.key, *((place.host, place.nodename) for place in pick.alternates)]


def caches(database: Database, kind: type[Any], add: Callable[[str], object], order: Sequence[str]) -> list[Any]:
    """A cache that has read host after host, and one that has read them all at once."""
    of = feed_queries.STORAGE if kind is PoolManager else feed_queries.MACHINES
    clock = FakeClock()
    early, late = (kind(*(ChangeFeed(database, clock, of=of) for _feed in range(2)), clock) for _cache in range(2))
    for host in order:
        add(host)
        early.refresh()
    late.refresh()
    return [early, late]


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_equal_hosts(database: Database, order: Sequence[str]) -> None:
    """Names are compared by code point, not by the collation of the database."""
    asked = loading.load_pipeline(of_scheduler(scheduler_max_attempts=9))
    chosen = [
        ranked(asked, each, factories.request())
        for each in caches(database, HostManager, Conductor(database).add_host, order)
    ]
    assert [[(host, host) for host in HOSTS]] * 2 == chosen


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
def test_equal_pools(database: Database, order: Sequence[str]) -> None:
    """The same for the pools of several backends: of one backend, by the name of the pool."""
    conf = of_scheduler(scheduler_max_attempts=99)
    volume_conf.register_opts(conf)
    asked, conductor = volume_loading.load_pipeline(conf), Conductor(database)
    chosen = [
        ranked(asked, each, pools.request())
        for each in caches(database, PoolManager, lambda host: conductor.add_backend(host, "p2", "p1"), order)
    ]
    assert [[(host, pool) for host in HOSTS for pool in ("p1", "p2")]] * 2 == chosen
