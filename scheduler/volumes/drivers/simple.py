# SPDX-License-Identifier: Apache-2.0
"""A driver that picks the backend with the fewest gibibytes of volumes: no filters, no weighers.

The value ``simple_scheduler`` names it; :mod:`scheduler.volumes.drivers.loading` loads it.
"""

from __future__ import annotations

import numpy

from fleet.context import RequestContext
from fleet.reasons import Reason
from scheduler.engine.hosts.candidates import Candidates
from scheduler.state.liveness import is_up
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.drivers.unweighed import Found, Unweighed


class SimpleScheduler(Unweighed):
    """Fewest allocated GiB first, up to ``max_gigabytes`` for each backend, in the zone of the request.

    The zone may name a backend too, ``zone:machine@backend``. For an administrator only this backend counts then, if it is
    up; neither its zone nor its space is checked. Other callers get the zone alone.
    """

    def choose(self, pools: Candidates, request: VolumeRequest, context: RequestContext) -> Found:
        zone, _colon, host = (request.properties.availability_zone or "").partition(":")
        if host and context.is_admin:
            return self._forced(pools, host)
        allowed = pools.by_shared("availability_zone", lambda known: known == zone) if zone else pools.present()
        return self._least(pools, pools.present() & allowed, request.requested_gb)

    def _forced(self, pools: Candidates, host: str) -> Found:
        named = pools.only(pools.rows_of_hosts([host]))
        if not named.any():
            return Found.none(Reason.POLICY, f"Service fleet-volume of host {host} is not known.")
        if not (named & is_up(pools, self.conf.service_down_time)).any():
            return Found.none(Reason.HOSTS_DOWN, f"Host {host} is not up or doesn't exist.")
        return self._emptiest(pools, named)

    def _least(self, pools: Candidates, allowed: numpy.ndarray, size_gb: float) -> Found:
        rows = pools.rows[allowed & self.up(pools)]
        amounts: dict[str, float] = {}
        for row in rows.tolist():
            host = pools.key(row)[0]
            amounts[host] = amounts.get(host, 0) + pools.value(row, "allocated_capacity_gb")
        if not amounts:
            return Found.none(Reason.HOSTS_DOWN, "Is the appropriate service running? No backend is up.")
        host = min(amounts, key=lambda each: amounts[each])
        if amounts[host] + size_gb > self.conf.volume.max_gigabytes:
            return Found.none(Reason.CAPACITY, "Not enough allocatable volume gigabytes remaining.")
        return self._emptiest(pools, pools.only(pools.rows_of_hosts([host])))

    @staticmethod
    def _emptiest(pools: Candidates, mask: numpy.ndarray) -> Found:
        """Return the pool with the fewest GiB of volumes."""
        amounts = numpy.where(mask, pools.column("allocated_capacity_gb"), numpy.inf)
        return Found(pools.key(int(pools.rows[amounts.argmin()])))
