# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for operators, namespace ``operator``: instances, moves, hosts and services.

``catalog`` has the rest. Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import oslo_messaging

from conductor_stub.moves import views
from conductor_stub.operators import instance_list, trace
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.operators.views import (
    instance_view,
    instance_views,
    plain,
    queued_view,
    require_filters,
    shown,
    waiting_view,
)
from conductor_stub.steps.acts import Acts
from conductor_stub.volumes.views import of_attachment
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Connection, Database, Transaction
from fleet.db.hosts import aggregates, hosts, services
from fleet.db.hosts import labels as label_rows
from fleet.db.instances import history, instance_listing, instances, moves
from fleet.db.instances.waiting import room_queue
from fleet.db.tables.base import Row
from fleet.db.tables.hosts import ServiceRow
from fleet.db.upkeep import removal
from fleet.db.volumes import attachments
from fleet.json_codec import JSONObject
from fleet.objects import Aggregate, BuildRequest, fields, host_labels, host_report, request_keys
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint, require_size

#: Events, and faults, that are shown of one instance.
_NEWEST = 500
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

Changed = TypeVar("Changed")


class OperatorManager:
    """Returns plain data. Times are ISO 8601 text in UTC."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(
        self,
        database: Database,
        service_down_time_s: float,
        dry_run: DryRun,
        diagnosis: Diagnosis,
        clock: Clock = utcnow,
        default_zone: str = "nova",
    ) -> None:
        self._database = database
        self._service_down_time_s = service_down_time_s
        self._dry_run = dry_run
        self._diagnosis = diagnosis
        self._clock = clock
        self._acts = Acts(database, clock)
        self._default_zone = default_zone

    # Instances

    @endpoint
    def list_instances(
        self,
        context: RequestContext,
        filters: dict[str, fields.Text | list[fields.Uuid] | bool | None] | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
        newest_first: bool = False,
        brief: bool = False,
    ) -> list[JSONObject]:
        """The oldest first, or the newest.

        :param filters: named in ``instance_listing.FILTERS``; ``changed_since`` is ISO 8601 text, ``deleted`` true or false
        :param marker: an instance: only those after it
        :param brief: only what ``instance_listing.BRIEF`` names
        :raises errors.InvalidInput: an unknown filter, or more than MOST_BYTES; errors.NotFound: an unknown host or marker
        """
        require_filters(filters or {}, instance_listing.FILTERS)
        wanted = instance_list.parsed(filters or {})

        def read(connection: Connection) -> list[JSONObject]:
            found = instance_list.read(connection, limit, marker, newest_first, brief, wanted)
            if not found and wanted.get("host"):
                services.require_host(connection, str(wanted["host"]))
            return found

        return self._database.read(read)

    @endpoint
    def show_instance(self, context: RequestContext, name: fields.Name) -> JSONObject:
        """The newest events and faults are shown: a user may make any number of them.

        :raises errors.NotFound: errors.Conflict: several have that name
        """

        def read(connection: Connection) -> JSONObject:
            row = instances.find(connection, name)
            return {
                "instance": instance_view(row),
                "faults": [shown(fault) for fault in history.faults(connection, row.uuid, _NEWEST)],
                "events": [shown(event) for event in history.events(connection, row.uuid, _NEWEST)],
                "migration": self._last_migration(connection, row.uuid),
                "queued": queued_view(connection, row),
                "volumes": [of_attachment(each) for each in attachments.of_instances(connection, [row.uuid])],
            }

        return self._database.read(read)

    @endpoint
    def newest_faults(self, context: RequestContext, uuids: fields.Uuids) -> dict[str, JSONObject]:
        """The newest fault of each of these instances that has one, by uuid."""
        found = self._database.read(history.newest_faults, uuids)
        return {uuid: shown(fault) for uuid, fault in found.items()}

    @endpoint
    def trace(self, context: RequestContext, name: fields.Name) -> JSONObject:
        """See :func:`conductor_stub.operators.trace.read`."""
        return self._database.read(trace.read, name)

    @staticmethod
    def _last_migration(connection: Connection, uuid: str) -> JSONObject | None:
        found = moves.list_all(connection, limit=1, instance_uuid=uuid)
        return views.view(found[0]) if found else None

    @endpoint
    def list_migrations(
        self,
        context: RequestContext,
        filters: dict[fields.Name, fields.Name | list[fields.Uuid]] | None = None,
        limit: fields.Positive | None = None,
        marker: fields.Uuid | None = None,
    ) -> list[JSONObject]:
        """The newest first. A record is never large, so a limit alone bounds the answer.

        :param marker: only those after this one
        :raises errors.InvalidInput: an unknown filter; errors.NotFound: an unknown host, or marker
        """
        filters = filters or {}
        require_filters(filters, moves.FILTERS)
        found = self._database.read(moves.list_all, limit=limit, marker=marker, **filters)
        if not found and not marker and filters.get("host"):
            self._database.read(services.require_host, str(filters["host"]))
        return [views.view(row) for row in found]

    @endpoint
    def list_queue(
        self, context: RequestContext, project_id: fields.Text | None = None, limit: fields.Positive | None = None
    ) -> JSONObject:
        """``builds`` that wait for room, in the order in which they are woken, and ``now``."""

        def read(connection: Connection) -> list[JSONObject]:
            kept = room_queue.pulse(connection)
            return [
                waiting_view(place, row, kept.kept_host if row.uuid == kept.kept_for else None)
                for place, row in room_queue.listed(connection, project_id, limit)
            ]

        return {"builds": self._database.read(read), "now": plain(self._clock())}

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Name) -> JSONObject:
        return self._dry_run.request_of(name)

    @endpoint
    def requests_of(self, context: RequestContext, uuids: fields.Uuids, live: bool = False) -> list[JSONObject]:
        """The requests that place these instances now; one that does not exist is left out.

        :param live: of a guest that can move while it runs, only hosts that take it so
        """
        return self._dry_run.requests_of(uuids, live)

    @endpoint
    def request_for(self, context: RequestContext, request: JSONObject) -> JSONObject:
        require_size(request, "request")
        request_keys.examine(request)
        return self._dry_run.request_for(context, BuildRequest.from_wire(request))

    # Hosts and services

    @endpoint
    def list_hosts(self, context: RequestContext) -> list[JSONObject]:
        return self._database.read(self._host_views, None)

    @endpoint
    def host_table(self, context: RequestContext, columns: list[fields.Name]) -> list[list[object]]:
        """These fields of all hosts, a list for each: of many hosts a sixth of the bytes of :meth:`list_hosts`.

        :raises errors.InvalidInput: a column that hosts do not have
        """
        for name in columns:
            if name not in _HOST_FIELDS:
                raise errors.InvalidInput(field="columns", reason=f"must be of {', '.join(_HOST_FIELDS)}, not {name}")
        return [[view[name] for name in columns] for view in self._database.read(self._host_views, None)]

    @endpoint
    def show_host(self, context: RequestContext, name: fields.Name) -> JSONObject:
        """:raises errors.NotFound:"""

        def read(connection: Connection) -> JSONObject:
            nodes = self._host_views(connection, name)
            if not nodes:
                raise errors.NotFound(kind="Host", name=name)
            for node in nodes:
                node["bridges"] = hosts.stat_of(connection, name, node["node"], host_report.BRIDGES)
                node["booted_at"] = plain(hosts.booted_at(connection, name, node["node"]))
            there = instance_views(instances.on_host(connection, name))
            return {"host": name, "nodes": nodes, "instances": there}

        return self._database.read(read)

    def _host_views(self, connection: Connection, name: str | None) -> list[JSONObject]:
        agents = {row.host: row for row in services.list_all(connection) if row.binary == services.COMPUTE}
        zones = _zones(aggregates.list_all(connection))
        health = {host: self._health(agent) for host, agent in agents.items()}
        labelled = label_rows.of_hosts(connection, None if name is None else [name])
        views = []
        # Attributes of a row are slow to read.
        for row in cast("Sequence[Row]", hosts.list_all(connection, name, _HOST_COLUMNS)):
            view: JSONObject = dict(zip(_HOST_COLUMNS, row, strict=True))
            view["node"] = view.pop("hypervisor_hostname")
            view.update(health.get(view["host"]) or self._health(None))
            view.update(zone=zones.get(view["host"], self._default_zone), labels=labelled.get(view["host"], {}))
            view["updated_at"] = plain(view["updated_at"])
            views.append(view)
        return views

    def _health(self, service: ServiceRow | None) -> dict[str, str]:
        up = service is not None and services.is_up(service, self._clock(), self._service_down_time_s)
        enabled = service is not None and not service.disabled
        return {"state": "up" if up else "down", "status": "enabled" if enabled else "disabled"}

    @endpoint
    def list_services(self, context: RequestContext) -> list[JSONObject]:
        """All services; an agent's with the ``driver`` that the nodes of its host report."""

        def read(connection: Connection) -> list[JSONObject]:
            types = hosts.hypervisor_types(connection)
            return [{**self._service_view(row), "driver": _driver(row, types)} for row in services.list_all(connection)]

        return self._database.read(read)

    @endpoint
    def update_service(
        self,
        context: RequestContext,
        host: fields.Name,
        disabled: fields.Flag,
        binary: fields.Name = services.COMPUTE,
        reason: fields.Text | None = None,
    ) -> JSONObject:
        """:raises errors.NotFound:"""
        asked = (services.set_disabled, host, binary, disabled, reason, self._clock())
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

    def _service_view(self, row: ServiceRow) -> JSONObject:
        view = {"host": row.host, "binary": row.binary, **self._health(row), "disabled_reason": row.disabled_reason}
        spoken = {"rpc_version": row.rpc_version, "release": row.release}
        return {
            **view,
            "last_seen_up": plain(row.last_seen_up),
            "forced_down": row.forced_down,
            "clock_skew_s": row.clock_skew_s,
            "pid": row.pid,
            "hostname": row.hostname,
            **spoken,
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

    @endpoint
    def examine(self, context: RequestContext) -> JSONObject:
        return self._diagnosis.run()


def _driver(service: ServiceRow, types: Mapping[str, str]) -> str | None:
    return types.get(service.host) if service.binary == services.COMPUTE else None


def _registered(tx: Transaction, host: str) -> JSONObject:
    """Return the record of a host that an act keeps of its removal."""
    agent = services.get(tx, host, services.COMPUTE)
    nodes = [row.hypervisor_hostname for row in hosts.list_all(tx, host, ("hypervisor_hostname",))]
    return {"nodes": nodes, "agent": agent is not None and not agent.deleted}


def _zones(found: list[Aggregate]) -> dict[str, str]:
    """Availability zone by host, as the aggregates set it."""
    return {
        host: each.metadata["availability_zone"]
        for each in found
        if each.metadata.get("availability_zone")
        for host in each.hosts
    }
