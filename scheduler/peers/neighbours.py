# SPDX-License-Identifier: Apache-2.0
"""The other live schedulers: divides the hosts with them, and sends them bookings.

Called by :mod:`scheduler.compute.service`. The service records say which schedulers are alive. They are read every
``report_interval``, so a share moves within ``service_down_time`` after a scheduler has stopped. Until then its hosts
are chosen where other shares have no room.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence

from oslo_log import log as logging

from fleet.context import new_context
from fleet.rpc.clients import SchedulerAPI
from scheduler.state.booking import Booking
from scheduler.state.host_manager import HostManager
from scheduler.state.shares import Schedulers

LOG = logging.getLogger(__name__)


class Neighbours:
    """:param live: reads the names of the live scheduler services
    :param service: the name of this process's service
    :param workers: the number of its worker processes
    :param number: this process's number among them, from 0
    """

    def __init__(
        self,
        host_manager: HostManager,
        scheduler: SchedulerAPI,
        live: Callable[[], Iterable[str]],
        service: str,
        workers: int = 1,
        number: int = 0,
    ) -> None:
        self._host_manager = host_manager
        self._scheduler = scheduler
        self._live = live
        self._service, self._workers, self._number = service, workers, number
        self._lock = threading.Lock()
        self._untold: list[Booking] = []
        self._telling = False
        self._lost = False

    @property
    def name(self) -> str:
        """The name of this process among all schedulers."""
        return f"{self._service} {self._number}"

    def follow(self) -> None:
        """Divide the hosts among the schedulers that are alive now. If they cannot be read, the shares stay."""
        try:
            live = set(self._live())
        except Exception as failure:
            # Whatever the database or its driver raises: the next call reads again.
            LOG.debug("The live schedulers cannot be read now: %s", type(failure).__name__)
            return
        services = tuple(sorted({*live, self._service}))
        self._host_manager.follow_schedulers(Schedulers(services, self._service, self._workers, self._number))

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
