# SPDX-License-Identifier: Apache-2.0
"""Tells all schedulers what is on a host. One that misses it learns from the change feed."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log as logging

from compute_agent.node.host import Host
from fleet import context as fleet_context
from fleet.context import RequestContext
from fleet.objects import Instance
from fleet.rpc.clients import SchedulerAPI

LOG = logging.getLogger(__name__)

#: What comes to the hosts of this process meanwhile is told in one message.
GATHER_S = 0.2
#: Has something done after so many seconds.
Later = Callable[[float, Callable[[], None]], object]


def in_a_thread(seconds: float, work: Callable[[], None]) -> None:
    """A process that ends does not wait for it."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


class InstanceInfo:
    """Nobody's build fails, and nobody waits, because no scheduler could be told. Safe for any number of threads.

    :param scheduler: None where ``scheduler_tracks_instance_changes`` is off: then nothing is told
    """

    def __init__(self, scheduler: SchedulerAPI | None = None, later: Later = in_a_thread) -> None:
        self._scheduler = scheduler
        self._later = later
        self._lock = threading.Lock()
        #: By uuid, what has arrived and is not told yet: whose request it was, and what is to be said.
        self._arrived: dict[str, tuple[RequestContext, dict[str, Any]]] = {}

    def arrived(self, context: RequestContext, instance: Instance) -> None:
        """It is there now. LastReports in a moment, with others."""
        scheduler = self._scheduler
        if scheduler is None or instance.host is None:
            return
        info = {
            "uuid": instance.uuid,
            "host": instance.host,
            "node": instance.node,
            "vm_state": instance.vm_state,
            "task_state": instance.task_state,
            "instance_type_id": instance.flavor.id,
            "project_id": instance.project_id,
        }
        with self._lock:
            is_first = not self._arrived
            self._arrived[instance.uuid] = context, info
        if is_first:
            try:
                self._later(GATHER_S, functools.partial(self._tell_of_arrivals, scheduler))
            except RuntimeError:  # there is no thread for it
                self._tell_of_arrivals(scheduler)

    def gone(self, context: RequestContext, host: str, instance_uuid: str) -> None:
        """It is not there any more."""
        scheduler = self._scheduler
        if scheduler is not None:
            with self._lock:
                self._arrived.pop(instance_uuid, None)
            self._tell(lambda: scheduler.delete_instance_info(context, host, instance_uuid))

    def sync(self, hosts: Iterable[Host]) -> None:
        """All that is on each of the hosts, by uuid."""
        scheduler = self._scheduler
        if scheduler is None:
            return
        context = fleet_context.new_context()
        for host in hosts:
            name, uuids = host.name, sorted(host.tracked())
            if not self._tell(lambda: scheduler.sync_instance_info(context, name, uuids)):  # noqa: B023  (called at once)
                return

    def _tell_of_arrivals(self, scheduler: SchedulerAPI) -> None:
        with self._lock:
            arrived, self._arrived = list(self._arrived.values()), {}
        if not arrived:  # all of them have gone again
            return
        context = arrived[0][0] if len(arrived) == 1 else fleet_context.new_context()
        self._tell(lambda: scheduler.update_instance_info(context, [info for _context, info in arrived]))

    @staticmethod
    def _tell(cast: Callable[[], None]) -> bool:
        """Whether it went out."""
        try:
            cast()
        except Exception as failure:
            # Whatever the broker's driver raises: the change feed says the same.
            LOG.info("The schedulers were not told (%s: %s); they will read it", type(failure).__name__, failure)
            return False
        return True
