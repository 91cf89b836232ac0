# SPDX-License-Identifier: Apache-2.0
"""Wires the scheduler for virtual machines together. Called by :mod:`scheduler.main` beside the scheduler for volumes."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet import service, tolerance_conf
from fleet.client import pages
from fleet.clock import since_boot_s
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.feed.feed import ChangeFeed
from fleet.db.hosts import services
from fleet.db.operations import tolerances
from fleet.db.upkeep.clock import LedgerClock
from fleet.ledger_identity import LedgerIdentity
from fleet.objects.answers.instances import SchedulingRequestOf
from fleet.objects.feed_rows import ShownInstance, ShownNode
from fleet.rpc import server
from fleet.rpc.clients import OperatorAPI, OperatorCalls, SchedulerAPI
from fleet.rpc.notifier import get_notifier
from fleet.rpc.pins import Pins
from scheduler.compute.drivers import driver_loading
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from scheduler.compute.manager import SchedulerManager
from scheduler.compute.planning import survival
from scheduler.compute.planning.losses.promises import Prover
from scheduler.peers.neighbours import Neighbours
from scheduler.peers.registration import BINARY, TOPIC

#: Seconds for which the first proof may hold up the start.
_FIRST_PROOF_S = 30.0
LOG = logging.getLogger(__name__)


class Awaited:
    """A part of the process that delays the start of the parts after it until an event, for a limited time."""

    def __init__(self, event: threading.Event, limit_s: float, what: str) -> None:
        self._event = event
        self._limit_s = limit_s
        self._what = what

    def start(self) -> None:
        if not self._event.wait(self._limit_s):
            LOG.warning("Serving after %.0f s without %s", self._limit_s, self._what)

    def stop(self) -> None:
        pass

    def wait(self) -> None:
        pass


def servers(
    conf: cfg.ConfigOpts,
    transport: oslo_messaging.RPCTransport,
    database: Database,
    clock: LedgerClock,
    ledger: LedgerIdentity,
    pins: Pins,
    number: int | None,
) -> Sequence[service.Runnable]:
    """Build the servers and tasks of one process for virtual machines."""

    def images() -> bool:
        """Image properties of instances are read only where they weigh."""
        weight: float = conf.image_props_weight_multiplier
        return weight != 0

    feed = functools.partial(ChangeFeed[ShownNode, ShownInstance], database, clock, images, False, ledger, clock.note)
    driver = driver_loading.build_driver(
        conf, feed, get_notifier(conf, f"scheduler.{conf.host}"), clock, elapsed_s=since_boot_s
    )

    def live() -> Sequence[str]:
        return database.read(services.live, BINARY, clock(), conf.service_down_time, TOPIC)

    neighbours = Neighbours(
        driver.host_manager,
        SchedulerAPI(transport, conf, pins, ledger),
        live,
        conf.host,
        service.new_incarnation(),
        *((1, 0) if number is None else (conf.scheduler_workers, number)),
    )
    compare_s = conf.scheduler_compare_period
    plan = functools.partial(survival.answer, conf, lambda: feed().read(0))
    manager = SchedulerManager(driver, clock, hear=neighbours.hear, plan=plan)
    options = server.Options(ledger=ledger, acknowledged_late=SchedulerManager.REPEATABLE)
    runs: list[service.Runnable] = [
        service.Periodic("driver", driver.run_periodic_tasks, conf.scheduler_driver_task_period),
        service.Periodic("compare", driver.host_manager.compare, compare_s, initial_s=compare_s),
    ]
    if isinstance(driver, FilterScheduler) and conf.scheduler_tolerance_interval:
        keeps_promises: FilterScheduler = driver
        operator = OperatorAPI(transport, conf, pins, ledger)
        of_fleet = tolerance_conf.of_fleet(conf)
        prover = Prover(
            *(conf, driver.admission),
            lambda: database.read(tolerances.promised, of_fleet),
            *(feed, clock),
            lambda uuids: _requests(OperatorCalls(functools.partial(operator.call, new_context())), uuids),
            lambda: keeps_promises.pipeline,
            keeps_promises.host_manager.bookings,
        )
        runs.append(service.Periodic("tolerance", prover.prove, conf.scheduler_tolerance_interval))
        # Requests wait in the queue meanwhile. Before the first proof they would be decided as if nothing was survived.
        runs.append(Awaited(prover.is_ready, _FIRST_PROOF_S, "the first proof of what the fleet promises to survive"))
    runs.append(server.get_server(transport, TOPIC, conf.host, [manager], options))
    if conf.scheduler_prefer_own_hosts:
        driver.host_manager.tell_booked = neighbours.tell
        runs.append(service.Periodic("neighbours", neighbours.follow, conf.report_interval))
    return runs


def _requests(operator: OperatorCalls, uuids: Sequence[str]) -> list[SchedulingRequestOf]:
    return [each for part in pages.requests(operator, uuids) for each in part]
