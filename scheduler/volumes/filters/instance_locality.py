# SPDX-License-Identifier: Apache-2.0
"""Pools on the machine of an instance, by hint. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import numpy

from fleet.objects import location
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.request import VolumeRequest
from scheduler.volumes.filters.base import ColumnFilter

#: The driver looks the instance up before the decision, and stores its machine in the request.
HINT = "local_to_instance"


class InstanceLocalityFilter(ColumnFilter):
    """With the hint ``local_to_instance``, pools pass on the machine that the instance runs on."""

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: VolumeRequest) -> numpy.ndarray | None:
        if not request.scheduler_hints.get(HINT):
            return None
        rows = hosts.rows[hosts.present()].tolist()
        there = [row for row in rows if location.extract_host(hosts.key(row)[0], "host") == request.local_host]
        return hosts.only(there)
