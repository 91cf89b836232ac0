# SPDX-License-Identifier: Apache-2.0
"""Encodes the answer of ``select_destinations`` as nova's Selection objects, or as dicts.

:mod:`scheduler.nova.endpoint` answers with it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import numa

#: Not newer than what any nova since Stein knows: of a newer version the conductor would ask itself for a backport.
SELECTION, LIMITS, NUMA_LIMITS, NETWORKS = "1.1", "1.0", "1.1", "1.0"
#: The microversion of placement whose form an allocation request has.
ALLOCATION_VERSION = "1.36"
#: In place of an allocation request where nothing is to be claimed.
NO_ALLOCATION = "null"


@dataclasses.dataclass(frozen=True)
class Found:
    """A host of the answer.

    :param node_uuid: uuid of the compute node, which is its provider in placement
    :param request: the allocation request; None: nothing is claimed
    """

    host: str
    nodename: str
    node_uuid: str
    cell_uuid: str
    zone: str
    limits: JSONMapping = dataclasses.field(default_factory=dict)
    request: JSONMapping | None = None


def selections(found: Sequence[Sequence[Found]]) -> list[list[JSONObject]]:
    """Return one list for each instance: the chosen host, then its alternates."""
    return [[_selection(each) for each in hosts] for hosts in found]


def dicts(found: Sequence[Sequence[Found]]) -> list[JSONObject]:
    """Return the chosen host of each instance in the form before Selection objects."""
    return [{"host": each.host, "nodename": each.nodename, "limits": _legacy(each.limits)} for each, *_others in found]


def _selection(found: Found) -> JSONObject:
    request = NO_ALLOCATION
    if found.request is not None:
        request = json.dumps(dict(found.request))
    data = {
        "compute_node_uuid": found.node_uuid,
        "service_host": found.host,
        "nodename": found.nodename,
        "cell_uuid": found.cell_uuid,
        "limits": _limits(found.limits),
        "allocation_request": request,
        "allocation_request_version": None if found.request is None else ALLOCATION_VERSION,
        "availability_zone": found.zone,
    }
    return _envelope("Selection", SELECTION, data)


def _limits(limits: Mapping[str, object]) -> JSONObject:
    """Return all four fields: nova reads each of them. Its claim checks the cells only, the others are left empty."""
    cells = _cells(limits)
    return _envelope(
        "SchedulerLimits", LIMITS, {"numa_topology": cells, "vcpu": None, "disk_gb": None, "memory_mb": None}
    )


def _legacy(limits: Mapping[str, object]) -> JSONObject:
    cells = _cells(limits)
    return {"numa_topology": cells} if cells else {}


def _cells(limits: Mapping[str, object]) -> JSONObject | None:
    found = limits.get("numa_topology")
    ratios = found if isinstance(found, numa.Limits) else numa.Limits.from_wire(found)
    if ratios is None:
        return None
    data = ratios.to_wire()
    if ratios.network_metadata:
        # nova-compute fits the cells again, near the same networks.
        data["network_metadata"] = _envelope("NetworkMetadata", NETWORKS, ratios.network_metadata.to_wire())
    return _envelope("NUMATopologyLimits", NUMA_LIMITS, data)


def _envelope(name: str, version: str, data: Mapping[str, object]) -> JSONObject:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": dict(data),
    }
