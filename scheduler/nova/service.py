# SPDX-License-Identifier: Apache-2.0
"""Wires the scheduler together for nova. Called by :mod:`scheduler.main` if ``[nova] transport_url`` is set."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors, service
from fleet.checks import required
from fleet.clock import since_boot_s, utcnow
from fleet.db.connection.options import Limits
from fleet.db.feed.feed import Changes
from fleet.db.nova import api_queries
from fleet.db.nova.api_queries import Cell
from fleet.db.nova.database import NovaDatabase, cell_url
from fleet.db.nova.own_service import OwnService
from fleet.rpc import nova_broker, server
from fleet.rpc.notifier import Silence
from fleet.rpc.transport import get_transport
from fleet.rpc.trust import signing
from fleet.service import probes
from fleet.telemetry.watchdog import Probe
from scheduler import conf as scheduler_conf
from scheduler.compute.drivers import driver_loading, loading
from scheduler.compute.drivers.driver import Scheduler
from scheduler.nova import conf as nova_conf
from scheduler.nova import nova_options
from scheduler.nova import probes as nova_probes
from scheduler.nova.cell_feed import Pace
from scheduler.nova.context import NovaContextSerializer
from scheduler.nova.domain import NOVA_MACHINES
from scheduler.nova.endpoint import NovaEndpoint
from scheduler.nova.feed import NovaFeed
from scheduler.nova.heartbeat import Heartbeat
from scheduler.nova.notifications import Notifications
from scheduler.nova.operator import NovaOperator
from scheduler.nova.placement import Placement
from scheduler.nova.placing import Placing
from scheduler.nova.polling import Polled, polled
from scheduler.nova.providers import ProviderFeed, ProviderNotes
from scheduler.nova.rebuild import RebuildCheck
from scheduler.nova.request_filters import RequestFilters
from scheduler.nova.rows import Reserved

LOG = logging.getLogger(__name__)
TOPIC = "scheduler"


def adapt(conf: cfg.ConfigOpts) -> None:
    """Set the common options as nova has them."""
    nova_broker.use(conf)
    if conf.nova.max_attempts is None:
        conf.set_override("max_attempts", conf.scheduler_max_attempts, "nova")
    else:
        conf.set_override("scheduler_max_attempts", conf.nova.max_attempts)


def check(conf: cfg.ConfigOpts) -> None:
    """:raises errors.ConfigError: the service could not work with this configuration"""
    if not conf.nova.api_connection:
        example = "such as api_connection = postgresql+psycopg2://READER:PASSWORD@HOST/nova_api"
        raise errors.NotConfigured(option="[nova] api_connection", files=required.files(conf), example=example)
    if signing.keys_of(conf):
        raise errors.ConfigError(option="[message_signing]", reason="must not be set, as nova signs no messages")
    try:
        get_transport(conf).cleanup()
    except (ValueError, errors.ConfigError):
        # The library's own sentence may repeat a password.
        reason = "is no URL of a message broker, such as rabbit://nova:PASSWORD@HOST:5672/"
        raise errors.ConfigError(option="[nova] transport_url", reason=reason) from None
    loading.load_pipeline(conf, NOVA_MACHINES)
    driver_loading.load_driver_class(conf)
    driver_loading.load_host_manager_class(conf)
    if conf.nova.placement == nova_conf.CLAIM:
        Placement.from_conf(conf)
    open_api(conf).dispose()
    if (database := open_placement(conf)) is not None:
        database.dispose()
    if (row := open_row(conf)) is not None:
        row.dispose()


def open_api(conf: cfg.ConfigOpts) -> NovaDatabase:
    return NovaDatabase(conf.nova.api_connection, "[nova] api_connection", Limits.from_conf(conf))


def open_cell(conf: cfg.ConfigOpts, cell: Cell) -> NovaDatabase:
    """:raises errors.ConfigError:"""
    option = f"[nova] cell_connection, or the database_connection of cell {cell.name}"
    url = cell_url(cell.url, conf.nova.cell_connection or "", conf.nova.api_connection)
    return NovaDatabase(url, option, Limits.from_conf(conf))


def open_placement(conf: cfg.ConfigOpts) -> NovaDatabase | None:
    """Return placement's database; None if it is not configured. :raises errors.ConfigError:"""
    url = conf.nova.placement_connection
    return NovaDatabase(url, "[nova] placement_connection", Limits.from_conf(conf)) if url else None


def open_row(conf: cfg.ConfigOpts) -> OwnService | None:
    """Return this scheduler's row in nova's list of services; None if none is kept. :raises errors.ConfigError:"""
    url = conf.nova.service_connection
    return OwnService(url, conf.host, utcnow, Limits.from_conf(conf)) if url else None


def feeds(conf: cfg.ConfigOpts, api: NovaDatabase, notes: ProviderNotes | None = None) -> Callable[[], NovaFeed]:
    """Return a function that makes the feeds of one cache.

    :param notes: learns which resources other providers than compute nodes offer
    """
    options = conf.nova
    reserved = Reserved(options.reserved_host_memory_mb, options.reserved_host_disk_mb, options.reserved_host_cpus)
    pace = Pace(options.poll_overlap, patience_s=conf.scheduler_max_state_age)
    database = open_placement(conf)

    def made() -> NovaFeed:
        providers = None if database is None else ProviderFeed(database, notes or ProviderNotes())
        open_one = functools.partial(open_cell, conf)
        return NovaFeed(api, open_one, reserved=reserved, pace=pace, incomplete=incomplete, providers=providers)

    incomplete: set[int] = set()
    return made


def build_driver(conf: cfg.ConfigOpts, api: NovaDatabase, notes: ProviderNotes | None = None) -> Scheduler:
    return driver_loading.build_driver(conf, feeds(conf, api, notes), Silence(), adapt=polled, elapsed_s=since_boot_s)


def state(conf: cfg.ConfigOpts) -> Changes:
    """Return all that nova's databases show now, for commands. :raises errors.FleetError:"""
    scheduler_conf.register_opts(conf)
    nova_conf.register_opts(conf)
    api = open_api(conf)
    feed = feeds(conf, api)()
    try:
        found = feed.read(0)
    finally:
        feed.close()
        api.dispose()
    return found


def deciding(conf: cfg.ConfigOpts, api: NovaDatabase) -> tuple[Scheduler, Placing, Placement | None]:
    """Build what decides requests: the driver over the feeds, and what claims for it."""
    notes = ProviderNotes() if conf.nova.placement_connection else None
    driver = build_driver(conf, api, notes)
    placement = Placement.from_conf(conf) if conf.nova.placement == nova_conf.CLAIM else None
    if notes is None:
        _warn_of_columns()
    placing = Placing(
        driver,
        placement,
        conf.nova.max_attempts - 1,
        conf.default_availability_zone,
        notes=notes,
        request_filters=RequestFilters.from_conf(conf),
        most_candidates=conf.nova.max_placement_results,
        pcpu_fallback=not conf.nova.disable_fallback_pcpu_query,
    )
    return driver, placing, placement


def heartbeats(conf: cfg.ConfigOpts) -> Sequence[service.Runnable]:
    """Return the task that keeps the row in nova's list of services; an empty list if no row is kept."""
    row = open_row(conf)
    return [] if row is None else [service.Periodic("heartbeat", Heartbeat(row).beat, conf.report_interval)]


def servers(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    api: NovaDatabase,
    driver: Scheduler,
    placing: Placing,
    placement: Placement | None,
) -> Sequence[service.Runnable]:
    """Build the servers and tasks of one process.

    :raises errors.StaleState: nova's databases cannot be read. The queue is nova-scheduler's as well: a scheduler that
        knows no host would refuse requests that the other one can answer
    """
    driver.host_manager.refresh()
    if placement is not None:
        _warn_of_limits(placement)
    for sentence in nova_options.unread(conf):
        LOG.warning("%s", sentence)
    check = RebuildCheck(conf, driver.host_manager)
    endpoint = NovaEndpoint(driver, placing, check, Notifications.from_conf(conf))
    host_manager = driver.host_manager
    assert isinstance(host_manager, Polled)
    compare_s = conf.scheduler_compare_period
    return [
        server.get_server(
            transport,
            TOPIC,
            conf.host,
            [endpoint, NovaOperator(driver, api)],
            server.Options(exchange=conf.nova.exchange, serializer=NovaContextSerializer()),
        ),
        service.Periodic("poll", host_manager.poll, conf.nova.poll_period),
        service.Periodic("driver", driver.run_periodic_tasks, conf.scheduler_driver_task_period),
        service.Periodic("compare", host_manager.compare, compare_s, initial_s=compare_s),
    ]


def process(conf: cfg.ConfigOpts, binary: str, number: int) -> service.Process:
    """Return worker ``number`` of the service."""
    transport, api = get_transport(conf), open_api(conf)
    through = {
        probes.BROKER: probes.through_broker(conf, transport, TOPIC, conf.host, conf.nova.exchange),
        probes.DATABASE: lambda: api.read(api_queries.ping),
        probes.CLOCK: lambda: None,
        **databases_and_placement(conf, api),
    }
    once = heartbeats(conf) if number == 0 else ()
    decides = deciding(conf, api)
    return probes.process(conf, binary, number, through, lambda: [*servers(conf, transport, api, *decides), *once])


def databases_and_placement(conf: cfg.ConfigOpts, api: NovaDatabase) -> dict[str, Probe]:
    """Return probes of the cells, and of placement's API and database as far as they are configured."""
    placement = Placement.from_conf(conf) if conf.nova.placement == nova_conf.CLAIM else None
    return nova_probes.through(api, functools.partial(open_cell, conf), placement, open_placement(conf))


def _warn_of_columns() -> None:
    LOG.warning(
        "[nova] placement_connection is not set: capacity and ratios are those of compute_nodes, and what operators set in "
        "placement shows in refused claims only. See docs/nova.md."
    )


def _warn_of_limits(placement: Placement) -> None:
    """Log the parts of this deployment that are not supported.

    Placement may be away at start: requests are refused until it is back.
    """
    try:
        found = [f"Out of scope: {sentence} See docs/nova.md." for sentence in placement.out_of_scope()]
    except errors.FleetError as failure:
        found = [f"{failure.message} It is tried again with each request."]
    for sentence in found:
        LOG.warning("%s", sentence)
