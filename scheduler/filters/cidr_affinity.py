# SPDX-License-Identifier: Apache-2.0
"""Near an address."""

from __future__ import annotations

import ipaddress
from collections.abc import Hashable
from typing import Any

import numpy

from fleet import errors
from fleet.objects import RequestSpec
from scheduler import attributes
from scheduler.candidates import Candidates
from scheduler.filters.base import ColumnFilter


class SimpleCIDRAffinityFilter(ColumnFilter):
    """With the hint ``build_near_host_ip``, hosts pass in the same network; the hint ``cidr`` (``/24``) sizes it."""

    run_filter_once_per_request = True

    def mask(self, hosts: Candidates, request: RequestSpec) -> numpy.ndarray | None:
        near = _single(request.scheduler_hints.get("build_near_host_ip"))
        if not near:
            return None
        network = _network(near, _single(request.scheduler_hints.get("cidr")) or "/24")

        def inside(host_ip: str | None) -> bool:
            try:
                return ipaddress.ip_address(host_ip or "") in network
            except ValueError:
                return False

        return attributes.judged(hosts, "host_ip", inside)

    def recall_key(self, request: RequestSpec) -> Hashable | None:
        return None if request.scheduler_hints.get("build_near_host_ip") else ()


def _single(hint: Any) -> Any:
    """Hints given by a newer nova arrive as lists of one."""
    return hint[0] if isinstance(hint, list) and len(hint) == 1 else hint


def _network(near: object, cidr: object) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    try:
        return ipaddress.ip_network(f"{near}{cidr}", strict=False)
    except ValueError:
        reason = f"with the hint cidr gives no network: {near}{cidr}"
        raise errors.InvalidInput(field="filter_properties.scheduler_hints.build_near_host_ip", reason=reason) from None
