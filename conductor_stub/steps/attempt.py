# SPDX-License-Identifier: Apache-2.0
"""One attempt of a build or a move on one host, and why it failed.

The machines of builds, moves and volumes write it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from conductor_stub.steps.limits import StepContext
from fleet import errors, states
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.objects import Place


@dataclasses.dataclass(frozen=True)
class Attempt:
    """Attempt ``number`` of the row ``uuid``, on ``host``.

    :param incarnation: life of the agent that reports it
    """

    uuid: str
    number: int
    host: str
    node: str | None = None
    incarnation: str | None = None


@dataclasses.dataclass(frozen=True)
class Failure:
    """The failure of an attempt: its step, the name and message of the error, and the seconds that it had run.

    :param leaves: of a volume: data of the attempt may be on the pool still
    :param size_gb: of an extension: the size in GiB that the data have, if it is above the ledger's
    """

    step: str
    code: str
    message: str
    duration_s: float | None = None
    leaves: bool = False
    size_gb: int | None = None

    def event(self) -> dict[str, object]:
        """Columns of the event that records it."""
        return {"result": self.code, "message": self.message, "step": self.step, "duration_s": self.duration_s}

    @property
    def counts(self) -> bool:
        """Return True if the host's number of failed builds grows. It does not for a refused claim or a full host."""
        return self.step == states.SPAWN_STEP


def no_queue(host: str, binary: str = services.COMPUTE) -> Failure:
    """The broker returned the order: the agent of ``host`` has no queue."""
    down = errors.ServiceDown(binary=binary, host=host, reason="it has no queue on the broker")
    # This may be the second order: the agent was killed after the first.
    return Failure(states.CAST_STEP, type(down).__name__, down.message, leaves=True)


def usable(
    tx: Transaction,
    alternates: Sequence[Place],
    avoided: Collection[tuple[str | None, str | None]],
    ctx: StepContext,
    binary: str = services.COMPUTE,
) -> tuple[Place, ...]:
    """The alternates that are not avoided and whose agent is up and enabled. The scheduler chose them a while ago."""
    left = [place for place in alternates if (place.host, place.nodename) not in avoided]
    ready = services.taking_builds(tx, {place.host for place in left}, ctx.now, ctx.limits.service_down_time_s, binary)
    return tuple(place for place in left if place.host in ready)
