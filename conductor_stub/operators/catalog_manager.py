# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of :mod:`conductor_stub.operators.catalog`: namespace ``operator``, from version 1.5 on."""

from __future__ import annotations

from typing import Any

import oslo_messaging

from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.catalog import Catalog
from fleet.context import RequestContext
from fleet.objects import fields, instance_group
from fleet.rpc import versions
from fleet.rpc.endpoint import endpoint


class OperatorCatalog:
    """Namespace ``operator``: behind the ``fleet`` command."""

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
