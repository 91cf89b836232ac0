# SPDX-License-Identifier: Apache-2.0
"""The domain of virtual machines, as one value for the engine and the cache.

The loading of drivers hands it to both.
"""

from __future__ import annotations

from fleet.json_codec import JSONMapping
from fleet.objects import RequestSpec
from scheduler.compute.domain import default_plugins
from scheduler.compute.domain.columns import NUMBERS, OFTEN_UNIFORM, read_row
from scheduler.compute.domain.consumption import consumption, held
from scheduler.compute.domain.host_metrics import HostMetrics
from scheduler.compute.domain.host_state import DEFAULTS, Capabilities, RowState
from scheduler.compute.domain.request_faces import RequestFaces
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.domain.tracked_instance import has_moved, is_gone, is_over, picked, read_placed
from scheduler.compute.domain.views import VIEWS
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.domain import Defaults, Domain, Layout, Requests, Rows
from scheduler.state.liveness import is_up, steady_until


def _host_state(hosts: Candidates, row: int) -> object:
    return RowState(hosts, row)


def _properties(request: RequestSpec) -> JSONMapping:
    return {"instance_type": request.request_spec.get("instance_type")}


#: Readers of requests, from which a variant of the domain makes its own.
REQUESTS = Requests(
    placed=picked,
    consumption=consumption,
    held=held,
    properties=_properties,
    plugin_form=RequestFaces,
    request_key=request_key,
)
VIRTUAL_MACHINES = Domain.of(
    name="compute",
    layout=Layout(
        columns=NUMBERS,
        often_uniform=OFTEN_UNIFORM,
        shared={"aggregates": (), "capabilities": Capabilities(), "bridges": frozenset(), "labels": ()},
        objects=("host_ip",),
        empty={"metrics": HostMetrics, "stats": dict},
        attributes=frozenset([*DEFAULTS, "host", "nodename", "hypervisor_hostname", "limits"]),
        views=VIEWS,
        host_state=_host_state,
    ),
    rows=Rows(
        read_row=read_row,
        read_placed=read_placed,
        is_gone=is_gone,
        is_over=is_over,
        has_moved=has_moved,
        is_up=is_up,
        steady_until=steady_until,
    ),
    requests=REQUESTS,
    defaults=Defaults(
        normalisation="clamp",
        plugin_life="process",
        filters=default_plugins.FILTERS,
        weighers=default_plugins.WEIGHERS,
    ),
)
