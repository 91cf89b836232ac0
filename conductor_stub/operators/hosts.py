# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for hosts, their labels, and services, namespace ``operator``.

Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

import datetime
import functools
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast

import pydantic

from conductor_stub.operators.views import instance_views
from conductor_stub.steps.acts import Acts
from fleet import errors
from fleet.clock import Clock, as_text, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import aggregates, hosts, services, zones
from fleet.db.hosts import labels as label_rows
from fleet.db.instances import instances
from fleet.db.operations import taken_hosts
from fleet.db.tables.base import Row
from fleet.db.tables.hosts import ServiceRow
from fleet.db.upkeep import removal
from fleet.json_codec import JSONObject
from fleet.objects import fields, host_labels, host_report
from fleet.objects.answers.hosts import HostView, ListedService, ServiceView, ShownHost
from fleet.rpc.endpoint import endpoint, served

#: Columns that a host shows under their own names, and what is shown besides.
_HOST_VIEW = (
    *("vcpus", "vcpus_used", "memory_mb", "memory_mb_used", "free_ram_mb", "local_gb", "local_gb_used", "free_disk_gb"),
    *("running_vms", "cpu_allocation_ratio", "ram_allocation_ratio", "disk_allocation_ratio"),
    *("reserved_vcpus", "reserved_memory_mb", "reserved_disk_gb", "hypervisor_type", "hypervisor_version", "host_ip"),
)
_HOST_FIELDS = ("host", "node", "uuid", "state", "status", "zone", "labels", "updated_at", *_HOST_VIEW)
#: Columns of a service that only operators change.
_ADMINISTERED = ("disabled", "disabled_reason", "forced_down", "deleted")
_HOST_COLUMNS = ("host", "hypervisor_hostname", "uuid", "updated_at", *_HOST_VIEW)

#: Entries of one answer. Their names are arguments of one statement.
Part = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=10_000)]
#: Binary and host of a service.
ServiceMarker = Annotated[list[fields.Name], pydantic.Field(min_length=2, max_length=2)]

Changed = TypeVar("Changed")


class HostsManager:
    """Returns plain data. Times are ISO 8601 text in UTC."""

    target = served("conductor", "operator")

    def __init__(
        self,
        database: Database,
        service_down_time_s: float,
        clock: Clock = utcnow,
        default_zone: str = "nova",
    ) -> None:
        self._database = database
        self._service_down_time_s = service_down_time_s
        self._clock = clock
        self._acts = Acts(database, clock)
        self._default_zone = default_zone

    @endpoint
    def list_hosts(
        self, context: RequestContext, limit: Part | None = None, marker: fields.Uuid | None = None
    ) -> list[HostView]:
        """An entry for each node of a host. A host is never large, so a limit alone bounds the answer.

        :param marker: uuid of a node: only those after it
        :raises errors.NotFound: an unknown marker
        """
        return self._database.read(self._host_views, None, limit, marker)

    @endpoint
    def host_table(
        self,
        context: RequestContext,
        columns: list[fields.Name],
        limit: Part | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[list[Any]]:
        """These fields of hosts, a list for each: of many hosts a sixth of the bytes of :meth:`list_hosts`.

        :param marker: as of :meth:`list_hosts`
        :raises errors.InvalidInput: a column that hosts do not have; errors.NotFound: an unknown marker
        """
        for name in columns:
            if name not in _HOST_FIELDS:
                raise errors.InvalidInput(field="columns", reason=f"must be of {', '.join(_HOST_FIELDS)}, not {name}")
        views = self._database.read(self._host_views, None, limit, marker)
        return [[view[name] for name in columns] for view in views]  # type: ignore[literal-required]

    @endpoint
    def list_zones(self, context: RequestContext) -> dict[str, bool]:
        """The zones that have hosts, each with whether one of its hosts is up and enabled."""
        return self._database.read(zones.in_use, self._clock(), self._service_down_time_s, self._default_zone)

    @endpoint
    def list_host_states(self, context: RequestContext, names: list[fields.Name] | None = None) -> dict[str, list[str]]:
        """State and status of these hosts by name, or of all hosts that are down or disabled."""
        return self._database.read(services.states_of_hosts, self._clock(), self._service_down_time_s, names)

    @endpoint
    def show_host(self, context: RequestContext, name: fields.Name) -> ShownHost:
        """:raises errors.NotFound:"""

        def read(connection: Connection) -> ShownHost:
            nodes = self._host_views(connection, name)
            if not nodes:
                raise errors.NotFound(kind="Host", name=name)
            for node in nodes:
                node["bridges"] = hosts.stat_of(connection, name, node["node"], host_report.BRIDGES)
                node["booted_at"] = as_text(hosts.booted_at(connection, name, node["node"]))
            there = instance_views(instances.on_host(connection, name))
            return {"host": name, "nodes": nodes, "instances": there}

        return self._database.read(read)

    def _host_views(
        self, connection: Connection, name: str | None, limit: int | None = None, marker: str | None = None
    ) -> list[HostView]:
        # Attributes of a row are slow to read.
        rows = cast("Sequence[Row]", hosts.list_all(connection, name, _HOST_COLUMNS, limit, marker))
        views: list[JSONObject] = [dict(zip(_HOST_COLUMNS, row, strict=True)) for row in rows]
        names = None if name is None and limit is None else {str(view["host"]) for view in views}
        agents = services.of_hosts(connection, services.COMPUTE, names)
        zoned = {host: ",".join(sorted(named)) for host, named in aggregates.zones(connection, names).items()}
        health = {host: self._health(agent) for host, agent in agents.items()}
        labelled = label_rows.of_hosts(connection, names)
        for view in views:
            view["node"] = view.pop("hypervisor_hostname")
            view.update(health.get(view["host"]) or self._health(None))
            view.update(zone=zoned.get(view["host"], self._default_zone), labels=labelled.get(view["host"], {}))
            view["updated_at"] = as_text(view["updated_at"])
        return cast("list[HostView]", views)

    def _health(self, service: ServiceRow | None) -> dict[str, str]:
        up = service is not None and services.is_up(service, self._clock(), self._service_down_time_s)
        enabled = service is not None and not service.disabled
        return {"state": "up" if up else "down", "status": "enabled" if enabled else "disabled"}

    @endpoint
    def list_services(
        self, context: RequestContext, limit: Part | None = None, marker: ServiceMarker | None = None
    ) -> list[ListedService]:
        """All services; an agent's with the ``driver`` that the nodes of its host report.

        :param marker: binary and host of a service: only those after it
        """

        def read(connection: Connection) -> list[ListedService]:
            after = None if marker is None else (marker[0], marker[1])
            rows = services.list_all(connection, limit, after)
            types = hosts.hypervisor_types(connection, None if limit is None else {row.host for row in rows})
            return [{**self._service_view(row), "driver": _driver(row, types)} for row in rows]

        return self._database.read(read)

    @endpoint
    def update_service(
        self,
        context: RequestContext,
        host: fields.Name,
        disabled: fields.Flag,
        binary: fields.Name = services.COMPUTE,
        reason: fields.Text | None = None,
    ) -> ServiceView:
        """:raises errors.NotFound: errors.Conflict: the host would be enabled in the middle of its maintenance"""
        asked = (_set_disabled, host, binary, disabled, reason, self._clock())
        return self._service_view(
            self._change_service(context, "service.disable" if disabled else "service.enable", *asked)
        )

    @endpoint
    def force_down(
        self, context: RequestContext, host: fields.Name, forced: fields.Flag, binary: fields.Name = services.COMPUTE
    ) -> None:
        """Count the service as down before it is silent for ``service_down_time``. :raises errors.NotFound:"""
        self._change_service(context, "service.force_down", services.force_down, host, binary, forced, self._clock())

    def _change_service(
        self, context: RequestContext, act: str, work: Callable[..., Changed], host: str, binary: str, *args: object
    ) -> Changed:
        def shown(tx: Transaction) -> JSONObject | None:
            found = services.get(tx, host, binary)
            return None if found is None else {name: getattr(found, name) for name in _ADMINISTERED}

        return self._acts.write(context, act, f"{binary} on {host}", shown, work, host, binary, *args)

    def _service_view(self, row: ServiceRow) -> ServiceView:
        health = self._health(row)
        return {
            "host": row.host,
            "binary": row.binary,
            "state": health["state"],
            "status": health["status"],
            "disabled_reason": row.disabled_reason,
            "last_seen_up": as_text(row.last_seen_up),
            "forced_down": row.forced_down,
            "clock_skew_s": row.clock_skew_s,
            "pid": row.pid,
            "hostname": row.hostname,
            "rpc_version": row.rpc_version,
            "release": row.release,
        }

    @endpoint
    def delete_service(
        self, context: RequestContext, host: fields.Name, binary: fields.Name = services.COMPUTE
    ) -> None:
        """:raises errors.Conflict: it is in use"""
        self._database.read(services.require, host, binary)
        asked = (removal.service, host, binary, self._clock(), self._service_down_time_s)
        self._change_service(context, "service.delete", *asked)

    @endpoint
    def set_host_labels(
        self, context: RequestContext, host: fields.Name, labels: host_labels.Changes
    ) -> dict[str, str]:
        """Return the labels that count afterwards.

        :param labels: None removes the administrator's label, an empty text hides the one that the host reports
        :raises errors.NotFound: errors.InvalidInput: the host would have too many labels
        """
        shown, now = functools.partial(label_rows.of_host, host=host), self._clock()
        self._acts.write(context, "host.label", host, shown, label_rows.change, host, labels, now)
        return self._database.read(label_rows.of_host, host)

    @endpoint
    def delete_host(self, context: RequestContext, host: fields.Name) -> None:
        """:raises errors.Conflict: it is in use"""
        if not self._database.read(hosts.list_all, host):
            self._database.read(services.require, host, services.COMPUTE)
        shown, down_time_s = functools.partial(_registered, host=host), self._service_down_time_s
        self._acts.write(context, "host.delete", host, shown, removal.host_of_agent, host, self._clock(), down_time_s)


def _set_disabled(
    tx: Transaction, host: str, binary: str, disabled: bool, reason: str | None, now: datetime.datetime
) -> ServiceRow:
    """A host in the middle of its maintenance would be disabled again at the next look. :raises errors.Conflict:"""
    name = taken_hosts.maintenance_of(tx, host) if binary == services.COMPUTE and not disabled else None
    if name is not None:
        reason = f"is in maintenance {name}: 'fleet maintenance skip {shlex.quote(name)} {host}' takes it out"
        raise errors.Conflict(kind="Host", name=host, reason=reason)
    return services.set_disabled(tx, host, binary, disabled, reason, now)


def _driver(service: ServiceRow, types: Mapping[str, str]) -> str | None:
    return types.get(service.host) if service.binary == services.COMPUTE else None


def _registered(tx: Transaction, host: str) -> JSONObject:
    """Return the record of a host that an act keeps of its removal."""
    agent = services.get(tx, host, services.COMPUTE)
    nodes = [row.hypervisor_hostname for row in hosts.list_all(tx, host, ("hypervisor_hostname",))]
    return {"nodes": nodes, "agent": agent is not None and not agent.deleted}
