# SPDX-License-Identifier: Apache-2.0
"""A method for each call of the namespace ``operator``, however the call travels.

:mod:`fleet.client.calls` and ``fleet-api`` call it.
"""

from __future__ import annotations

from fleet.rpc.clients.operator.catalog import CatalogCalls
from fleet.rpc.clients.operator.hosts import HostCalls
from fleet.rpc.clients.operator.instances import InstanceCalls
from fleet.rpc.clients.operator.volumes import VolumeCalls


class OperatorCalls(InstanceCalls, HostCalls, VolumeCalls, CatalogCalls):
    """The calls of all parts of the namespace. The wire contract describes each method and its errors."""
