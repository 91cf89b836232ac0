# SPDX-License-Identifier: Apache-2.0
"""Reports of the host of a build: the claim before the spawn, the finish after it, or a failed attempt.

Called by :mod:`conductor_stub.agents.manager` and :mod:`fleet.objects`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar

from fleet import errors
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.claimed import Claimed
from fleet.objects.host_limits import HostLimits


@dataclasses.dataclass(frozen=True)
class Claim:
    """``placing → spawning``: the host holds ``claim`` for the instance.

    :param limits: ceilings of the host's usage, this claim included
    """

    instance_uuid: fields.Uuid
    attempt: fields.Natural
    host: fields.Name
    node: fields.Name
    incarnation: fields.Token
    claim: Claimed
    limits: HostLimits | None = None

    method: ClassVar[str] = "claim_instance"

    @classmethod
    def from_wire(cls, data: Mapping[str, object], field: str = "") -> Claim:
        """:raises errors.InvalidInput: naming the field"""
        prefix = f"{field}." if field else ""
        claim = Claimed.from_wire(data.get("claim"), f"{prefix}claim")
        limits = HostLimits.from_wire(data.get("limits"), f"{prefix}limits")
        return fields.parse(cls, {**data, "claim": claim, "limits": limits}, field)

    def to_wire(self) -> JSONObject:
        """The arguments of the RPC method."""
        limits = self.limits and self.limits.to_wire()
        return {**vars(self), "claim": self.claim.to_wire(), "limits": limits}


@dataclasses.dataclass(frozen=True)
class Finish:
    """``spawning → active``: the guest runs on the host.

    :param incarnation: life of the agent; None from an agent older than version 1.4 of the API
    """

    instance_uuid: fields.Uuid
    attempt: fields.Natural
    host: fields.Name
    power_state: fields.Natural
    incarnation: fields.Token | None = None

    method: ClassVar[str] = "finish_build"

    @classmethod
    def from_wire(cls, data: Mapping[str, object], field: str = "") -> Finish:
        """:raises errors.InvalidInput: naming the field"""
        return fields.parse(cls, data, field)

    def to_wire(self) -> JSONObject:
        """The arguments of the RPC method."""
        return dict(vars(self))


@dataclasses.dataclass(frozen=True)
class FailedAttempt:
    """An attempt on a host that ended in ``failure``; the host holds nothing for it any more."""

    instance_uuid: str
    attempt: int
    host: str
    node: str | None
    failure: JSONObject

    def to_wire(self) -> JSONObject:
        """Arguments of the RPC methods ``reschedule`` and ``abort_build``."""
        return dict(vars(self))


BuildStep = Claim | Finish
_KINDS: Mapping[str, type[Claim] | type[Finish]] = {kind.method: kind for kind in (Claim, Finish)}


def from_wire(data: Mapping[str, object], field: str) -> BuildStep:
    """A step of any kind: ``method``, and its arguments. :raises errors.InvalidInput: naming the field"""
    kind = _KINDS.get(str(data.get("method")))
    if kind is None:
        raise errors.InvalidInput(field=f"{field}.method", reason=f"must be one of {', '.join(_KINDS)}")
    return kind.from_wire(data, field)
