# SPDX-License-Identifier: Apache-2.0
"""The other live schedulers: divides the hosts with them, and sends them bookings.

Called by :mod:`scheduler.compute.service`. The service records say which schedulers are alive. They are read every
``report_interval``, so a share moves within ``service_down_time`` after a scheduler has stopped. Until then its hosts
are chosen where other shares have no room.

Daemons with the same ``host`` share one service record, so each looks alone there. Each process therefore sends a message
without bookings every ``report_interval``, with its incarnation. A process that receives one from another incarnation of
its own name divides its hosts with it, and logs a warning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from oslo_log import log as logging

from fleet.context import new_context
from fleet.rpc.clients import SchedulerAPI
from fleet.telemetry import rate_limited_log
from scheduler.state.booking import Booking
from scheduler.state.host_manager import HostManager
from scheduler.state.shares import Schedulers

LOG = logging.getLogger(__name__)
#: A process that has sent nothing during as many calls of :meth:`Neighbours.follow` is gone.
_SILENT_ROUNDS = 3


class Neighbours:
    """:param live: reads the names of the live scheduler services
    :param service: the name of this process's service
    :param incarnation: of this process
    :param workers: the number of its worker processes
    :param number: this process's number among them, from 0
    """

    def __init__(
        self,
        host_manager: HostManager,
        scheduler: SchedulerAPI,
        live: Callable[[], Iterable[str]],
        service: str,
        incarnation: str,
        workers: int = 1,
        number: int = 0,
    ) -> None:
        self._host_manager = host_manager
        self._scheduler = scheduler
        self._live = live
        self._service, self._workers, self._number = service, workers, number
        self._incarnation = incarnation
        #: Other processes with the name of this one → for how many more rounds they count as alive.
        self._namesakes: dict[str, int] = {}
        self._same_name = rate_limited_log.RateLimit()
        self._lock = threading.Lock()
        self._untold: list[Booking] = []
        self._telling = False
        self._lost = False

    @property
    def name(self) -> str:
        """The name of this process among all schedulers."""
        return f"{self._service} {self._number} {self._incarnation}"

    def hear(self, sender: object) -> bool:
        """Note which process has sent a message. Return False if it is this one."""
        if sender == self.name:
            return False
        name, _space, incarnation = str(sender).rpartition(" ")
        if name == f"{self._service} {self._number}":
            with self._lock:
                self._namesakes[incarnation] = _SILENT_ROUNDS
            if (left_out := self._same_name.due()) is not None:
                LOG.warning(
                    "Another fleet-scheduler has the name %s, too. They have one service record, so nobody notices when "
                    "one of them stops. Set 'host' to a different name for each (%d more such lines were left out)",
                    self._service, left_out,
                )  # fmt: skip
        return True

    def follow(self) -> None:
        """Divide the hosts among the schedulers that are alive now. If they cannot be read, the shares stay."""
        self._send([])
        try:
            live = set(self._live())
        except Exception as failure:
            # Whatever the database or its driver raises: the next call reads again.
            LOG.debug("The live schedulers cannot be read now: %s", type(failure).__name__)
            return
        services = tuple(sorted({*live, self._service}))
        with self._lock:
            incarnations = tuple(sorted({*self._namesakes, self._incarnation}))
            self._namesakes = {each: rounds - 1 for each, rounds in self._namesakes.items() if rounds > 1}
        self._host_manager.follow_schedulers(
            Schedulers(services, self._service, self._workers, self._number, incarnations, self._incarnation)
        )

    def tell(self, booked: Sequence[Booking]) -> None:
        """Send bookings to all schedulers. What is booked during a send goes in the next message."""
        with self._lock:
            self._untold += booked
            if self._telling:
                return
            self._telling = True
        while True:
            with self._lock:
                batch, self._untold = self._untold, []
                if not batch:
                    self._telling = False
                    return
            self._send(batch)

    def _send(self, batch: Sequence[Booking]) -> None:
        try:
            self._scheduler.note_bookings(new_context(), self.name, [_to_wire(each) for each in batch])
        except Exception as failure:
            # Drivers may raise anything. The others see the instances in the change feed.
            if not self._lost:
                LOG.info("Cannot send bookings to the other schedulers (%s): %s", type(failure).__name__, failure)
            self._lost = True
            return
        self._lost = False


def _to_wire(booking: Booking) -> dict[str, object]:
    """Rare resources, such as PCI devices, are left out: the claim on the host decides about them."""
    return {
        "instance_uuid": booking.instance_uuid,
        "host": booking.key[0],
        "nodename": booking.key[1],
        "amounts": dict(booking.amounts.numbers),
        "came_from": booking.came_from,
        "instance_type_id": booking.entry.instance_type_id,
        "project_id": booking.entry.project_id,
    }
