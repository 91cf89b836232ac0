# SPDX-License-Identifier: Apache-2.0
"""An index of instances and their hosts, as the database shows them and as they are booked.

Called by :mod:`scheduler.engine.hosts.inventory`.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping
from typing import Any

from scheduler.engine.hosts.domain import Placed

_NONE: Mapping[str, Any] = types.MappingProxyType({})


class InstanceIndex:
    """Instances by uuid and by host name. An instance is on one host at most.

    An entry is a value of the domain with ``uuid`` and ``host`` (:class:`scheduler.engine.hosts.domain.Placed`).
    """

    def __init__(self) -> None:
        self._by_uuid: dict[str, Placed] = {}
        self._by_host: dict[str, dict[str, Placed]] = {}

    def copy(self) -> InstanceIndex:
        other = InstanceIndex()
        other._by_uuid = dict(self._by_uuid)
        other._by_host = {host: dict(there) for host, there in self._by_host.items()}
        return other

    def __len__(self) -> int:
        return len(self._by_uuid)

    def place(self, instance: Placed) -> Placed | None:
        """Put an instance on its host, and return its former entry if there was one."""
        former = self.remove(instance.uuid)
        self._by_uuid[instance.uuid] = instance
        self._by_host.setdefault(instance.host, {})[instance.uuid] = instance
        return former

    def remove(self, uuid: str) -> Placed | None:
        """Remove an instance, and return its entry if there was one."""
        instance = self._by_uuid.pop(uuid, None)
        if instance is None:
            return None
        there = self._by_host[instance.host]
        del there[uuid]
        if not there:
            del self._by_host[instance.host]
        return instance

    def get(self, uuid: str) -> Any | None:
        return self._by_uuid.get(uuid)

    def host_of(self, uuid: str) -> str | None:
        instance = self._by_uuid.get(uuid)
        return instance.host if instance else None

    def on_host(self, host: str) -> Mapping[str, Any]:
        return self._by_host.get(host, _NONE)

    def by_host(self) -> Mapping[str, Mapping[str, Any]]:
        return types.MappingProxyType(self._by_host)

    def uuids(self) -> Iterable[str]:
        return self._by_uuid.keys()
