# SPDX-License-Identifier: Apache-2.0
"""Names for values that the engine passes on and does not look into.

The modules of the engine are annotated with them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from typing_extensions import TypeVar


class Request(Protocol):
    """The part of a parsed request that the engine reads. The request is a frozen dataclass of its domain."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def num_instances(self) -> int: ...
    @property
    def instance_uuids(self) -> tuple[str, ...]: ...
    @property
    def ignore_hosts(self) -> Sequence[str]: ...
    @property
    def within_hosts(self) -> Sequence[str] | None: ...
    @property
    def force_hosts(self) -> Sequence[str]: ...
    @property
    def force_nodes(self) -> Sequence[str]: ...
    @property
    def requested_hosts(self) -> Sequence[str]: ...
    @property
    def requested_nodes(self) -> Sequence[str]: ...
    @property
    def ignore_nodes(self) -> Sequence[tuple[str, str]]: ...
    @property
    def group_updated(self) -> bool: ...
    @property
    def group_hosts(self) -> frozenset[str]: ...
    @property
    def request_spec(self) -> Mapping[str, object]: ...
    @property
    def filter_properties(self) -> Mapping[str, object]: ...


#: The requests of one domain, which its plugins read
RequestT = TypeVar("RequestT", bound=Request, default=Request, contravariant=True)
#: A host in the form that plugins of one host at a time read
HostState = Any
#: ``filter_properties`` and ``weight_properties``, as plugins of one host at a time read them
Properties = dict[str, Any]
#: A value of a host → whether it passes, or its number
Judge = Callable[[Any], Any]
#: A part of an answer on the wire
Wire = dict[str, Any]
