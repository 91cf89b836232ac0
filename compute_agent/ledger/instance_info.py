# SPDX-License-Identifier: Apache-2.0
"""Sends hints to all schedulers about the instances on a host.

Called by :mod:`compute_agent.agent` and :mod:`compute_agent.ledger.build_calls`. A scheduler that misses a
hint reads the change feed.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable

from oslo_log import log as logging

from compute_agent.node.host import Host
from fleet import context as fleet_context
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Instance
from fleet.rpc.clients import SchedulerAPI

LOG = logging.getLogger(__name__)

#: Seconds to collect instances that arrive on hosts of this process for one message. The schedulers that need hints read
#: the change feed once a minute.
GATHER_S = 2.0
#: Runs ``work`` after that many seconds.
Later = Callable[[float, Callable[[], None]], object]


def in_a_thread(seconds: float, work: Callable[[], None]) -> None:
    """Run ``work`` in a daemon thread: a process that ends does not wait for it."""
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    timer.start()


class InstanceInfo:
    """A build neither waits nor fails because a hint could not be sent. Thread-safe.

    :param scheduler: None if ``scheduler_tracks_instance_changes`` is off: nothing is sent then
    """

    def __init__(self, scheduler: SchedulerAPI | None = None, later: Later = in_a_thread) -> None:
        self._scheduler = scheduler
        self._later = later
        self._lock = threading.Lock()
        #: Arrived instances that are not sent yet, by uuid: the request's context and the hint.
        self._arrived: dict[str, tuple[RequestContext, JSONObject]] = {}

    def arrived(self, context: RequestContext, instance: Instance) -> None:
        """The instance is on the host now. Sent after a moment, together with others."""
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
        """The instance is no longer on the host."""
        scheduler = self._scheduler
        if scheduler is not None:
            with self._lock:
                self._arrived.pop(instance_uuid, None)
            self._tell(lambda: scheduler.delete_instance_info(context, host, instance_uuid))

    def sync(self, hosts: Iterable[Host]) -> None:
        """Send the uuids of all instances on each of the hosts."""
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
        """Return True if the message was sent."""
        try:
            cast()
        except Exception as failure:
            # Drivers may raise anything. The change feed has the same information.
            LOG.info(
                "Cannot send a hint to the schedulers (%s: %s); they will read the change feed",
                type(failure).__name__,
                failure,
            )
            return False
        return True
