# SPDX-License-Identifier: Apache-2.0
"""Shows, changes and removes flavors, aggregates and groups, and the records of hosts that are gone.

``api`` creates and lists them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from conductor_stub.operators import api
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.db import aggregates, flavors, groups, hosts, removal, services
from fleet.db.engine import Database
from fleet.objects import Aggregate, Flavor

_SIZES = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap", "name")


class Catalog:
    """Arguments are names or uuids. What is in use is not removed: errors.Conflict names its users."""

    def __init__(self, database: Database, service_down_time_s: float, clock: Clock = utcnow) -> None:
        self._database = database
        self._service_down_time_s = service_down_time_s
        self._clock = clock

    # Flavors

    def show_flavor(self, name: str) -> dict[str, Any]:
        return self._database.read(flavors.find, name).to_wire()

    def update_flavor(
        self, name: str, changes: Mapping[str, Any], extra_specs: Mapping[str, str | None]
    ) -> dict[str, Any]:
        """:param changes: sizes, and a new ``name``
        :param extra_specs: None removes a key; others stay

        :raises errors.InvalidInput: naming the field
        """
        unknown = sorted(set(changes) - set(_SIZES))
        if unknown:
            raise errors.InvalidInput(field=f"changes.{unknown[0]}", reason=f"is not one of {', '.join(_SIZES)}")
        found = self._database.read(flavors.find, name)
        specs = {**found.extra_specs, **extra_specs}
        kept = {key: value for key, value in specs.items() if value is not None}
        wanted = Flavor.from_wire({**dataclasses.asdict(found), **changes, "extra_specs": kept}, "changes")
        if not wanted.name:
            raise errors.InvalidInput(field="changes.name", reason="must not be empty")
        return self._database.write(flavors.change, _key(found.id), wanted).to_wire()

    def delete_flavor(self, name: str) -> None:
        found = self._database.read(flavors.find, name)
        self._database.write(removal.flavor, _key(found.id))

    # Aggregates

    def show_aggregate(self, name: str) -> dict[str, Any]:
        return self._database.read(aggregates.find, name).to_wire()

    def rename_aggregate(self, name: str, new_name: str) -> Aggregate:
        found = self._database.read(aggregates.find, name)
        return self._database.write(aggregates.rename, found.id, new_name)

    def delete_aggregate(self, name: str) -> Aggregate:
        """Returns the aggregate as it was."""
        found = self._database.read(aggregates.find, name)
        self._database.write(removal.aggregate, found.id, self._clock())
        return found

    # Groups

    def show_group(self, name: str) -> dict[str, Any]:
        return self._database.read(lambda read: api.group_view(read, groups.find(read, name)))

    def update_group(
        self, name: str, new_name: str | None, policy: str | None, max_server_per_host: int | None
    ) -> dict[str, Any]:
        uuid = self._database.read(groups.find, name).uuid
        self._database.write(groups.change, uuid, new_name, policy, max_server_per_host)
        return self.show_group(uuid)

    def delete_group(self, name: str) -> None:
        found = self._database.read(groups.find, name)
        self._database.write(removal.group, found.uuid)

    # Hosts and services

    def delete_service(self, host: str, binary: str) -> None:
        self._database.read(services.require, host, binary)
        self._database.write(removal.service, host, binary, self._clock(), self._service_down_time_s)

    def delete_host(self, host: str) -> None:
        if not self._database.read(hosts.list_all, host):
            self._database.read(services.require, host, services.COMPUTE)
        self._database.write(removal.host_of_agent, host, self._clock(), self._service_down_time_s)


def _key(found: int | None) -> int:
    assert found is not None, "a flavor that was read has its key"
    return found
