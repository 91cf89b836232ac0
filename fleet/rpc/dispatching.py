# SPDX-License-Identifier: Apache-2.0
"""Finds the method that a message names, and calls it.

oslo.messaging's dispatcher compares the version with each endpoint for every message, and makes a thread that it mostly does
not start. This one remembers what was found, and one thread watches all calls (:mod:`.call_monitor`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oslo_messaging

from fleet.rpc import call_monitor

#: Found methods that are remembered. Senders choose the texts, so there must be a limit.
_REMEMBERED = 1024
_ANY = oslo_messaging.Target()


class Dispatcher(oslo_messaging.RPCDispatcher):
    """Calls, as oslo.messaging does, the first endpoint with the namespace, a compatible version and the method."""

    def __init__(self, endpoints: list[object], *options: object) -> None:
        super().__init__(endpoints, *options)
        self._monitor = call_monitor.CallMonitor()
        self._method = functools.lru_cache(_REMEMBERED)(self._found)

    def dispatch(self, incoming: Any) -> object:
        """Return the answer of the method.

        :raises oslo_messaging.UnsupportedVersion: no endpoint has the namespace in this version
        :raises oslo_messaging.NoSuchMethod: none of those has the method
        """
        message, serializer = incoming.message, self.serializer
        called = self._method(message.get("namespace"), message.get("version", "1.0"), message.get("method"))
        with self._monitor.watching(incoming):
            context = serializer.deserialize_context(incoming.ctxt)
            given = message.get("args", {})
            arguments = {name: serializer.deserialize_entity(context, value) for name, value in given.items()}
            return serializer.serialize_entity(context, called(context, **arguments))

    def _found(self, namespace: str | None, version: str, name: str) -> Callable[..., object]:
        served = [
            endpoint
            for endpoint in self.endpoints
            for target in [getattr(endpoint, "target", None) or _ANY]
            if namespace in target.accepted_namespaces and is_compatible(target.version or "1.0", version)
        ]
        if not served:
            raise oslo_messaging.UnsupportedVersion(version, method=name)
        for endpoint in served:
            if hasattr(endpoint, name) and self.access_policy.is_allowed(endpoint, name):
                method: Callable[..., object] = getattr(endpoint, name)
                return method
        raise oslo_messaging.NoSuchMethod(name)


def is_compatible(served: str, asked: str) -> bool:
    """Return True if an endpoint of version ``served`` (major.minor, and perhaps a revision) can answer ``asked``: the major
    versions are equal, and the rest of ``asked`` is not higher.
    """
    (major, *newest), (asked_major, *rest) = _numbers(served), _numbers(asked)
    return asked_major == major and rest <= newest


def _numbers(version: str) -> tuple[int, int, int]:
    major, minor, revision = [*map(int, version.split(".")), 0][:3]
    return major, minor, revision
