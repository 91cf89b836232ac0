# SPDX-License-Identifier: Apache-2.0
"""A request of nova's conductor, parsed: the scheduler's own request, and what only nova has.

Called by the modules beside it and those of :mod:`scheduler.nova.shadow`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Annotated

import pydantic

from fleet.json_codec import JSONMapping
from fleet.objects import Flavor, RequestSpec, fields
from fleet.objects.request_spec import SentSpec
from scheduler.nova.resource_request import ResourceRequest

#: Placement's allocation requests, by uuid of the compute node.
Offers = Mapping[str, Sequence[JSONMapping]]
#: Of one request. Quotas limit nova's, and a message has no room for more uuids.
MOST_INSTANCES = 10_000


@dataclasses.dataclass(frozen=True)
class Destination:
    """The hosts to which nova restricts a request (nova: Destination). Empty values restrict nothing.

    :param cell: uuid of the only cell that is allowed
    :param other_cells: True if other cells are allowed too, and ``cell`` is preferred
    :param aggregates: sets of aggregate uuids. A host must be in at least one aggregate of each set
    :param forbidden_aggregates: uuids of aggregates that a host must not be in
    """

    host: str | None = None
    node: str | None = None
    cell: str | None = None
    other_cells: bool = False
    aggregates: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()


@dataclasses.dataclass(frozen=True)
class _Flavor(Flavor):
    """nova limits the number of extra specs only by what it stores."""

    extra_specs: dict[fields.Name, fields.Text] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _SentSpec(SentSpec):
    instance_type: _Flavor
    num_instances: Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=MOST_INSTANCES)]


@dataclasses.dataclass(frozen=True)
class NovaRequest(RequestSpec):
    """``providers`` are the compute nodes with the required traits, by uuid; None: no trait is required."""

    sent_form = _SentSpec

    destination: Destination = Destination()
    required_traits: frozenset[str] = frozenset()
    forbidden_traits: frozenset[str] = frozenset()
    providers: frozenset[str] | None = None
    #: What one instance takes of placement; None in tests, where the flavor says it.
    wanted: ResourceRequest | None = None
    #: None if the columns of the hosts decide.
    offered: Offers | None = None
    #: Of the image; empty if nova did not send it.
    disk_format: str = ""
    #: True if the root disk is a volume.
    is_bfv: bool = False

    @property
    def is_restricted(self) -> bool:
        """True if the destination or traits exclude hosts."""
        with_traits = self.required_traits or self.forbidden_traits or self.providers is not None
        return self.destination != Destination() or bool(with_traits) or self.offered is not None

    @property
    def room_is_given(self) -> bool:
        """True if filters of capacity need not judge the flavor: placement offered the hosts, or extra specs override it."""
        return self.offered is not None or (self.wanted is not None and self.wanted.overridden)


@dataclasses.dataclass(frozen=True)
class Call:
    """One call of ``select_destinations``.

    :param named: True if the caller gave the uuids of the instances. Without them nothing can be claimed
    :param rebuild_check: the instance stays on its host, and only its new image is checked
    """

    request: NovaRequest
    named: bool
    return_objects: bool = False
    return_alternates: bool = False
    rebuild_check: bool = False


@dataclasses.dataclass(frozen=True)
class Flags:
    """The arguments of a call beside the request."""

    instance_uuids: list[fields.Uuid] | None = None
    return_objects: bool = False
    return_alternates: bool = False
