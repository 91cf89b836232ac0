# SPDX-License-Identifier: Apache-2.0
"""Wires the scheduler for volumes together. Called by :mod:`scheduler.main` beside the scheduler for virtual machines."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import oslo_messaging
from oslo_config import cfg

from fleet import service
from fleet.clock import Clock, since_boot_s
from fleet.db.engine.database import Database
from fleet.db.feed import feed_queries
from fleet.db.feed.feed import ChangeFeed
from fleet.db.instances import instances
from fleet.db.upkeep.clock import LedgerClock
from fleet.db.volumes import volume_types
from fleet.ledger_identity import LedgerIdentity
from fleet.objects import VolumeType
from fleet.objects.feed_rows import ShownPool, ShownVolume
from fleet.rpc import server
from scheduler.state.host_manager import Feed
from scheduler.volumes import conf as volume_conf
from scheduler.volumes.drivers import loading
from scheduler.volumes.drivers.driver import Scheduler
from scheduler.volumes.drivers.host_manager import HostManager
from scheduler.volumes.manager import TOPIC, VolumeSchedulerManager


def check(conf: cfg.ConfigOpts) -> str:
    """:raises errors.ConfigError: the service could not work with this configuration"""
    volume_conf.register_opts(conf)
    pipeline = loading.load_pipeline(conf)
    driver = loading.load_driver_class(conf).__name__
    return f"{driver} loads with {len(pipeline.filters)} filters and {len(pipeline.weighers)} weighers for volumes"


def build_driver(
    conf: cfg.ConfigOpts,
    feed: Feed,
    audit_feed: Feed,
    clock: Clock,
    elapsed_s: Callable[[], float] | None = None,
) -> Scheduler:
    """Return the configured driver over a cache of its own.

    :param elapsed_s: seconds of a clock that is never stepped; None: those of ``clock``
    """
    host_manager = HostManager(
        feed,
        audit_feed,
        clock=clock,
        booking_timeout_s=conf.scheduler_booking_timeout,
        service_down_time_s=conf.service_down_time,
        max_state_age_s=conf.scheduler_max_state_age,
    )
    host_manager.elapsed_s = elapsed_s or host_manager.elapsed_s
    return loading.load_driver_class(conf)(conf, host_manager)


def servers(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    database: Database,
    clock: LedgerClock,
    ledger: LedgerIdentity,
) -> Sequence[service.Runnable]:
    """Build the servers and tasks of one process for volumes."""
    volume_conf.register_opts(conf)
    feed = functools.partial(
        ChangeFeed[ShownPool, ShownVolume],
        database,
        clock,
        retry=False,
        ledger=ledger,
        note_time=clock.note,
        of=feed_queries.STORAGE,
    )
    driver = build_driver(conf, feed(), feed(), clock, since_boot_s)

    def locate(instance_uuid: str) -> str | None:
        hosts = [row.host for row in database.read(instances.of_uuids, [instance_uuid])]
        return hosts[0] if hosts else None

    def find_type(name: str) -> VolumeType:
        return database.read(volume_types.find, name)

    manager = VolumeSchedulerManager(driver, locate, find_type, clock)
    options = server.Options(ledger=ledger, acknowledged_late=VolumeSchedulerManager.REPEATABLE)
    compare_s = conf.scheduler_compare_period
    return [
        server.get_server(transport, TOPIC, conf.host, [manager], options),
        service.Periodic("compare volumes", driver.host_manager.compare, compare_s, initial_s=compare_s),
    ]
