# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for operators: namespace ``operator``."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.api import OperatorAPI
from conductor_stub.operators.catalog import Catalog
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from fleet.context import RequestContext
from fleet.objects import BuildRequest, Flavor, fields, instance_group, request_keys
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint, require_size


class OperatorManager:
    """What operators list, show and create."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, api: OperatorAPI, dry_run: DryRun, announcements: Announcements, diagnosis: Diagnosis) -> None:
        self._api = api
        self._diagnosis = diagnosis
        self._dry_run = dry_run
        self._announcements = announcements

    @endpoint
    def list_instances(
        self,
        context: RequestContext,
        filters: dict[str, fields.Text | list[fields.Uuid] | None] | None = None,
        limit: fields.Positive | None = None,
    ) -> list[dict[str, Any]]:
        return self._api.list_instances(filters or {}, limit)

    @endpoint
    def show_instance(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.show_instance(name)

    @endpoint
    def trace(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.trace(name)

    @endpoint
    def examine(self, context: RequestContext) -> dict[str, Any]:
        return self._diagnosis.run()

    @endpoint
    def request_of(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._dry_run.request_of(name)

    @endpoint
    def request_for(self, context: RequestContext, request: dict[str, Any]) -> dict[str, Any]:
        require_size(request, "request")
        request_keys.examine(request)
        return self._dry_run.request_for(context, BuildRequest.from_wire(request))

    @endpoint
    def list_hosts(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_hosts()

    @endpoint
    def show_host(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._api.show_host(name)

    @endpoint
    def list_services(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_services()

    @endpoint
    def update_service(
        self,
        context: RequestContext,
        host: fields.Name,
        disabled: fields.Flag,
        binary: fields.Name = "fleet-compute",
        reason: fields.Text | None = None,
    ) -> dict[str, Any]:
        return self._api.update_service(host, binary, disabled, reason)

    @endpoint
    def force_down(
        self, context: RequestContext, host: fields.Name, forced: fields.Flag, binary: fields.Name = "fleet-compute"
    ) -> None:
        self._api.force_down(host, binary, forced)

    @endpoint
    def list_migrations(
        self, context: RequestContext, filters: dict[fields.Name, fields.Name | list[fields.Uuid]] | None = None
    ) -> list[dict[str, Any]]:
        return self._api.list_migrations(filters or {})

    @endpoint
    def list_flavors(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_flavors()

    @endpoint
    def create_flavor(self, context: RequestContext, flavor: dict[str, Any]) -> dict[str, Any]:
        return self._api.create_flavor(Flavor.from_wire(flavor))

    @endpoint
    def list_aggregates(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_aggregates()

    @endpoint
    def create_aggregate(
        self, context: RequestContext, name: fields.Name, metadata: fields.Texts | None = None
    ) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.create_aggregate(name, metadata or {}))

    @endpoint
    def add_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.add_aggregate_host(name, host))

    @endpoint
    def remove_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.remove_aggregate_host(name, host))

    @endpoint
    def set_aggregate_metadata(
        self, context: RequestContext, name: fields.Name, metadata: dict[fields.Name, fields.Text | None]
    ) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._api.set_aggregate_metadata(name, metadata))

    @endpoint
    def list_groups(self, context: RequestContext) -> list[dict[str, Any]]:
        return self._api.list_groups()

    @endpoint
    def create_group(
        self,
        context: RequestContext,
        name: fields.Name,
        policy: instance_group.Policy,
        max_server_per_host: fields.Positive = 1,
    ) -> dict[str, Any]:
        return self._api.create_group(name, policy, max_server_per_host, context.project_id)


class CatalogManager:
    """What operators change and remove, from version 1.5 on."""

    target = oslo_messaging.Target(namespace="operator", version=versions.CURRENT["conductor"])

    def __init__(self, catalog: Catalog, announcements: Announcements) -> None:
        self._catalog = catalog
        self._announcements = announcements

    @endpoint
    def show_flavor(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._catalog.show_flavor(name)

    @endpoint
    def update_flavor(
        self,
        context: RequestContext,
        name: fields.Name,
        changes: dict[str, Any] | None = None,
        extra_specs: dict[fields.Name, fields.Text | None] | None = None,
    ) -> dict[str, Any]:
        return self._catalog.update_flavor(name, changes or {}, extra_specs or {})

    @endpoint
    def delete_flavor(self, context: RequestContext, name: fields.Name) -> None:
        self._catalog.delete_flavor(name)

    @endpoint
    def show_aggregate(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._catalog.show_aggregate(name)

    @endpoint
    def rename_aggregate(self, context: RequestContext, name: fields.Name, new_name: fields.Name) -> dict[str, Any]:
        return self._announcements.aggregate_changed(context, self._catalog.rename_aggregate(name, new_name))

    @endpoint
    def delete_aggregate(self, context: RequestContext, name: fields.Name) -> None:
        self._announcements.aggregate_deleted(context, self._catalog.delete_aggregate(name))

    @endpoint
    def show_group(self, context: RequestContext, name: fields.Name) -> dict[str, Any]:
        return self._catalog.show_group(name)

    @endpoint
    def update_group(
        self,
        context: RequestContext,
        name: fields.Name,
        new_name: fields.Name | None = None,
        policy: instance_group.Policy | None = None,
        max_server_per_host: fields.Positive | None = None,
    ) -> dict[str, Any]:
        return self._catalog.update_group(name, new_name, policy, max_server_per_host)

    @endpoint
    def delete_group(self, context: RequestContext, name: fields.Name) -> None:
        self._catalog.delete_group(name)

    @endpoint
    def delete_service(self, context: RequestContext, host: fields.Name, binary: fields.Name = "fleet-compute") -> None:
        self._catalog.delete_service(host, binary)

    @endpoint
    def delete_host(self, context: RequestContext, host: fields.Name) -> None:
        self._catalog.delete_host(host)
