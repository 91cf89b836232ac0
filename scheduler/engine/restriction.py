# SPDX-License-Identifier: Apache-2.0
"""Hosts that the request itself excludes or forces, before any filter runs."""

from __future__ import annotations

from typing import Any

import numpy
from oslo_log import log as logging

from scheduler.engine.candidates import Candidates

LOG = logging.getLogger(__name__)


def is_forced(request: Any) -> bool:
    """Return True if the request names its hosts, so that no filter runs."""
    return bool(request.force_hosts or request.force_nodes)


def is_restricted(request: Any) -> bool:
    """Return True if the request names any hosts, or excludes some."""
    return is_forced(request) or bool(request.ignore_hosts)


def allowed(hosts: Candidates, request: Any) -> numpy.ndarray:
    """Return a mask after ``ignore_hosts``, ``force_hosts`` and ``force_nodes``.

    Host names are compared without case, node names with case.
    """
    mask = hosts.present()
    if request.ignore_hosts:
        LOG.debug("The request excludes hosts %s", ", ".join(request.ignore_hosts))
        mask = mask & ~hosts.only(hosts.rows_of_hosts_any_case(request.ignore_hosts))
    if request.force_hosts:
        mask = mask & hosts.only(hosts.rows_of_hosts_any_case(request.force_hosts))
        _log_forced("hosts", request.force_hosts, mask)
    if request.force_nodes:
        mask = mask & hosts.only(hosts.rows_of_nodes(request.force_nodes))
        _log_forced("nodes", request.force_nodes, mask)
    return mask


def _log_forced(kind: str, names: tuple[str, ...], mask: numpy.ndarray) -> None:
    if mask.any():
        LOG.debug("The request forces the %s %s", kind, ", ".join(names))
    else:
        LOG.debug("None of the %s that the request forces is known: %s", kind, ", ".join(names))
