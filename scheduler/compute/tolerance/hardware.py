# SPDX-License-Identifier: Apache-2.0
"""Guests with cells or devices for which nodes keep room. Sums of vcpus and memory do not tell whether they still fit.

``guard`` counts them by node; ``admission`` asks the filters about each kind of them before another such guest comes there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

from fleet.objects import RequestSpec
from scheduler.compute.domain.request_key import request_key
from scheduler.compute.tolerance.kept import KeptThings, Node


@dataclasses.dataclass(frozen=True)
class Hardware:
    """Guests that one loss puts on a node together, at least one of them with cells or devices.

    :param key: equal for guests that no filter tells apart
    """

    key: Hashable
    requests: tuple[RequestSpec, ...] = dataclasses.field(compare=False)

    @classmethod
    def of(cls, requests: Iterable[RequestSpec]) -> Hardware | None:
        """Return None if no guest has cells or devices: then sums of amounts are enough."""
        found = tuple(requests)
        if not any(map(has_hardware, found)):
            return None
        keys = [request_key(each) for each in found]
        return cls(tuple(id(each) if key is None else key for key, each in zip(keys, found, strict=True)), found)

    def with_more(self, other: Hardware) -> Hardware:
        """Return these guests and the others."""
        made = Hardware.of((*self.requests, *other.requests))
        assert made is not None, "these have cells or devices"
        return made

    def without(self, other: Hardware) -> Hardware | None:
        """Return these guests without the others; None if the rest has no cells or devices."""
        gone = {id(each) for each in other.requests}
        return Hardware.of(each for each in self.requests if id(each) not in gone)


def has_hardware(request: RequestSpec) -> bool:
    """Return True if a guest of this request takes cells or devices of its host."""
    return request.numa_topology is not None or bool(request.pci_requests)


class KeptHardware(KeptThings[Hardware]):
    """The kinds of such guests that losses put on nodes, by node."""

    def nodes_of_several(self) -> list[Node]:
        """Return the nodes to which some loss brings several guests."""
        return [node for node, there in self._on.items() if any(len(each.requests) > 1 for each in there)]
