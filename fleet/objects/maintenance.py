# SPDX-License-Identifier: Apache-2.0
"""A maintenance as an operator requests it: the hosts of each wave, and the destinations of their guests in the plan.

Called by :mod:`conductor_stub.maintenance.manager` and :mod:`fleet_cli.planning.maintenance`.
"""

from __future__ import annotations

import collections
import dataclasses
from typing import Annotated

import pydantic

from fleet import errors
from fleet.objects import fields, uuid_like

#: Hosts of one maintenance.
MOST_HOSTS = 1000
#: Guests of all its hosts that the plan names.
MOST_GUESTS = 100_000
_Wave = Annotated[list[fields.Name], pydantic.Field(min_length=1, max_length=MOST_HOSTS)]


@dataclasses.dataclass(frozen=True)
class Maintenance:
    """:param waves: the hosts of each wave, in their order
    :param destinations: by host, by uuid of a guest; a guest that is not there goes where the scheduler sends it
    :param hook: a name of ``[maintenance] hooks``; None: the operator does the work, and starts the agent anew
    :param wanted_release: of the agents, before their hosts count as done
    :param cold: guests that cannot move while they run are switched off for their moves
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")

    name: uuid_like.GivenName
    waves: Annotated[list[_Wave], pydantic.Field(min_length=1, max_length=MOST_HOSTS)]
    destinations: dict[fields.Name, dict[fields.Uuid, fields.Name]] = dataclasses.field(default_factory=dict)
    hook: fields.Name | None = None
    wanted_release: fields.Name | None = None
    cold: fields.Flag = False
    moves_at_a_time: Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=1000)] = 4

    @classmethod
    def from_wire(cls, data: object, field: str = "maintenance") -> Maintenance:
        """:raises errors.InvalidInput: naming the field"""
        found = fields.parse(cls, data, field)
        hosts = [host for wave in found.waves for host in wave]
        if len(hosts) > MOST_HOSTS:
            reason = f"has {len(hosts)} hosts, at most {MOST_HOSTS} are allowed"
            raise errors.InvalidInput(field=f"{field}.waves", reason=reason)
        for host, number in collections.Counter(hosts).items():
            if number > 1:
                raise errors.InvalidInput(field=f"{field}.waves", reason=f"has {host} twice")
        if sum(map(len, found.destinations.values())) > MOST_GUESTS:
            reason = f"has more than {MOST_GUESTS} guests"
            raise errors.InvalidInput(field=f"{field}.destinations", reason=reason)
        for host in found.destinations.keys() - set(hosts):
            raise errors.InvalidInput(field=f"{field}.destinations", reason=f"has {host}, which is in no wave")
        return found
