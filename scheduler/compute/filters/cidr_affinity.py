# SPDX-License-Identifier: Apache-2.0
"""Hosts must be in the network of an address. :mod:`scheduler.engine.filtering` calls it."""

from __future__ import annotations

import ipaddress

import numpy

from fleet.objects import RequestSpec, hints, request_parts
from scheduler.compute.domain import extra_spec_lookup
from scheduler.compute.filters.base import ColumnFilter
from scheduler.engine.hosts.candidates import Candidates


class SimpleCIDRAffinityFilter(ColumnFilter):
    """With the hint ``build_near_host_ip``, hosts pass in the same network; the hint ``cidr`` (``/24``) sizes it."""

    judges = (request_parts.hint("build_near_host_ip"), request_parts.hint("cidr"))
    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        network = hints.near_network(request.scheduler_hints)
        if network is None:
            return None

        def inside(host_ip: str | None) -> bool:
            try:
                return ipaddress.ip_address(host_ip or "") in network
            except ValueError:
                return False

        return extra_spec_lookup.judged(hosts, "host_ip", inside)
