# SPDX-License-Identifier: Apache-2.0
"""Which instance is on which host: as the database shows it, and as booked."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Mapping
from typing import Any

_NOTHING: Mapping[str, TrackedInstance] = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True)
class TrackedInstance:
    """What filters may ask of an instance on a host (nova: the values of ``host_state.instances``)."""

    uuid: str
    host: str
    node: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    instance_type_id: int | None = None
    project_id: str | None = None
    #: Of the image it was made from; known only if a weigher asks for it.
    image_properties: frozenset[tuple[str, str]] = frozenset()

    def completed_by(self, other: TrackedInstance) -> TrackedInstance:
        """With what ``other`` knows, where it knows anything."""
        told = {field.name: getattr(other, field.name) for field in dataclasses.fields(other)}
        return dataclasses.replace(self, **{name: value for name, value in told.items() if value})


def image_pairs(properties: Mapping[str, Any] | None) -> frozenset[tuple[str, str]]:
    """An image's properties in a form that can be compared; what has no value is left out."""
    return frozenset((name, str(value)) for name, value in (properties or {}).items() if value is not None)


class InstanceIndex:
    """Found by uuid and by host name; an instance is on one host at most."""

    def __init__(self) -> None:
        self._by_uuid: dict[str, TrackedInstance] = {}
        self._by_host: dict[str, dict[str, TrackedInstance]] = {}

    def copy(self) -> InstanceIndex:
        other = InstanceIndex()
        other._by_uuid = dict(self._by_uuid)
        other._by_host = {host: dict(there) for host, there in self._by_host.items()}
        return other

    def __len__(self) -> int:
        return len(self._by_uuid)

    def place(self, instance: TrackedInstance) -> None:
        self.remove(instance.uuid)
        self._by_uuid[instance.uuid] = instance
        self._by_host.setdefault(instance.host, {})[instance.uuid] = instance

    def remove(self, uuid: str) -> None:
        instance = self._by_uuid.pop(uuid, None)
        if instance is None:
            return
        there = self._by_host[instance.host]
        del there[uuid]
        if not there:
            del self._by_host[instance.host]

    def get(self, uuid: str) -> TrackedInstance | None:
        return self._by_uuid.get(uuid)

    def host_of(self, uuid: str) -> str | None:
        instance = self._by_uuid.get(uuid)
        return instance.host if instance else None

    def on_host(self, host: str) -> Mapping[str, TrackedInstance]:
        return self._by_host.get(host, _NOTHING)

    def by_host(self) -> Mapping[str, Mapping[str, TrackedInstance]]:
        return types.MappingProxyType(self._by_host)

    def uuids(self) -> Iterable[str]:
        return self._by_uuid.keys()
