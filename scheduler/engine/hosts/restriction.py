# SPDX-License-Identifier: Apache-2.0
"""Hosts that the request itself excludes or forces, before any filter runs.

Domains make one for each request, and decisions begin with it.
"""

from __future__ import annotations

import numpy
from oslo_log import log as logging

from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.names import Request

LOG = logging.getLogger(__name__)


def is_forced(request: Request) -> bool:
    """Return True if the request names its hosts, so that no filter runs."""
    return bool(request.force_hosts or request.force_nodes)


def is_named(request: Request) -> bool:
    """Return True if the request names the hosts to choose among."""
    named = request.requested_hosts or request.requested_nodes
    return is_forced(request) or bool(named) or request.within_hosts is not None


def is_restricted(request: Request) -> bool:
    """Return True if the request names any hosts, or excludes some."""
    return is_named(request) or bool(request.ignore_hosts or request.ignore_nodes)


def allowed(hosts: Candidates, request: Request) -> numpy.ndarray:
    """Return a mask after the hosts and nodes that the request ignores, stays within, asks for and forces.

    Host names are compared without case where no host is spelled so, node names with case.
    """
    if not is_restricted(request):
        return hosts.present()
    LOG.debug(
        "The request excludes hosts %s; it asks for hosts %s and nodes %s; it forces hosts %s and nodes %s",
        *(
            ", ".join(names) or "-"
            for names in (
                *(request.ignore_hosts, request.requested_hosts, request.requested_nodes),
                *(request.force_hosts, request.force_nodes),
            )
        ),
    )
    mask = hosts.restricted(request.ignore_hosts, request.force_hosts, request.force_nodes)
    if request.within_hosts is not None:
        mask &= hosts.of_table(hosts.whole().only(hosts.rows_named(request.within_hosts)))
    if request.ignore_nodes:
        mask &= ~hosts.of_table(hosts.whole().only(hosts.rows_of_keys(request.ignore_nodes)))
    if request.requested_hosts or request.requested_nodes:
        mask &= hosts.restricted((), request.requested_hosts, request.requested_nodes)
    return mask
