# SPDX-License-Identifier: Apache-2.0
"""The host that was chosen for a build, and its alternates: the row keeps them, and no other host acts on the build.

Called by :mod:`conductor_stub.builds.claims`, :mod:`conductor_stub.builds.failures` and
:mod:`conductor_stub.builds.placement`. A host that was not chosen would get the build's user data, and could end the
build.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fleet import errors, failpoints
from fleet.db.engine.database import Transaction
from fleet.db.instances import builds
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Place

#: By uuid, the attempt and the places, the host that gets the order first.
Choices = Mapping[str, tuple[int, Sequence[Place]]]


@failpoints.commits("conductor.choose")
def write(tx: Transaction, choices: Sequence[Choices]) -> list[None]:
    """Store the scheduler's choice for builds in ``placing``: from now on these hosts may claim."""
    builds.choose(tx, {uuid: chosen for each in choices for uuid, chosen in each.items()})
    return [None for _each in choices]


def require(row: RequestedInstance, attempt: int, host: str) -> None:
    """:raises errors.StaleBuild: another host was chosen for the build, or none yet"""
    if not is_chosen(row, host):
        raise errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=f"host {host} was not chosen for it")


def is_chosen(row: RequestedInstance, host: str) -> bool:
    """Return True also for a build that a conductor of an earlier release has placed: its row does not have the choice."""
    if row.chosen is None:
        return row.host in (None, host)
    return bool(row.chosen) and row.chosen[0]["host"] == host


def limits_of(row: RequestedInstance) -> JSONMapping:
    """The limits of the chosen host, as the scheduler sent them."""
    return (row.chosen[0].get("limits") or {}) if row.chosen else {}


def alternates(row: RequestedInstance, sent: Sequence[Place]) -> Sequence[Place]:
    """The alternates that the scheduler has chosen. :param sent: by the host, for a build of an earlier release"""
    return sent if row.chosen is None else [Place(**each) for each in row.chosen[1:]]


def following(places: Sequence[Place]) -> JSONObject:
    """Columns of a build that goes on to the first of ``places``, or to the scheduler if there is none."""
    return {"chosen": [each.to_wire() for each in places] if places else None}
