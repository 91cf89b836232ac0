# SPDX-License-Identifier: Apache-2.0
"""The result of a decision: the picks, the counts of each filter, and the refusal if no host was left.

:func:`scheduler.engine.decide.decide` returns it, and drivers answer with it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from fleet.objects import Place, Selection
from fleet.reasons import Reason
from scheduler.engine.filtering import Drop, FilterCount, Tally
from scheduler.engine.hosts.candidates import Candidates
from scheduler.engine.hosts.consumption import Consumption
from scheduler.engine.hosts.table import Key
from scheduler.engine.names import Request, Wire
from scheduler.engine.plugins import BaseHostFilter
from scheduler.engine.share import ShareUse
from scheduler.engine.supervision.supervision import Supervision


@dataclasses.dataclass(frozen=True)
class Pick:
    """The host chosen for one instance, with its claim limits, and the alternates."""

    instance_uuid: str
    key: Key
    limits: Mapping[str, object]
    weight: float
    alternates: Sequence[Place] = ()


@dataclasses.dataclass(frozen=True)
class StateAge:
    """The age of the host states that a decision read.

    :param generation: the feed's generation
    :param age_s: seconds since the newest reading of the feed
    :param stale: True if the database could not be read for this decision
    :param mix: version of what the fleet is asked for, if it is known
    """

    generation: int
    age_s: float
    stale: bool = False
    mix: int | None = None

    def to_wire(self) -> Wire:
        known = {} if self.mix is None else {"mix": self.mix}
        return {"generation": self.generation, "age_s": round(self.age_s, 3), "stale": self.stale, **known}


class Refusal(Protocol):
    """The reason for which no host was left. ``Pipeline.explain_refusal`` returns it."""

    @property
    def code(self) -> Reason: ...
    @property
    def sentence(self) -> str: ...
    def to_wire(self) -> Wire: ...


class Refused(NamedTuple):
    """The facts of a refusal.

    :param hosts: the whole table, with what the request has picked
    :param drops: the rows that each filter was the first to drop, over all instances of the request
    :param considered: how many hosts the request allows; with 0, no filter ran
    """

    hosts: Candidates
    request: Request
    filters: Sequence[BaseHostFilter]
    drops: Sequence[Drop]
    considered: int
    supervision: Supervision


ExplainRefusal = Callable[[Refused], Refusal]


@dataclasses.dataclass(frozen=True)
class Decision:
    """``picks`` in the order of the instances, as far as hosts were found.

    :param tally: counts of the filters over all instances of the request
    :param consumption: what each pick takes of its host
    :param refusal: why not all instances found a host
    :param remarks: sentences about plugins that misbehaved
    :param scores: how the best hosts for the first instance came to their weights, if that was asked for
    :param share: how the scheduler's own share of the hosts was used; None if it need not share them
    """

    requested: int
    considered: int
    picks: Sequence[Pick]
    tally: Tally
    consumption: Consumption
    request: Request
    refusal: Refusal | None = None
    remarks: Sequence[str] = ()
    state: StateAge | None = None
    scores: Sequence[Wire] = ()
    share: ShareUse | None = None

    @property
    def counts(self) -> Sequence[FilterCount]:
        return self.tally.counts()

    @property
    def complete(self) -> bool:
        return len(self.picks) == self.requested

    @property
    def reason(self) -> str:
        """The reason for which some instances have no host, as sentences; "" if all have one."""
        if self.refusal is None:
            return ""
        sentences = [self.refusal.sentence]
        if self.picks:
            sentences.append(f"There is room for {len(self.picks)} of {self.requested} instances.")
        if self.state and self.state.stale:
            sentences.append(f"STALE: the database cannot be read, the state is {self.state.age_s:.0f} s old.")
        return " ".join([*sentences, *self.remarks])

    def to_wire(self) -> Wire:
        """Return the decision record of ``docs/explain.md``."""
        return {
            "requested": self.requested,
            "considered": self.considered,
            "placed": len(self.picks),
            "filters": [count.to_wire() for count in self.counts],
            **({"state": self.state.to_wire()} if self.state else {}),
            **({"share": self.share.to_wire()} if self.share else {}),
            **({"remarks": list(self.remarks)} if self.remarks else {}),
            **(self.refusal.to_wire() if self.refusal else {}),
        }

    def selections(self) -> list[Selection]:
        record = self.to_wire()
        return [
            Selection(pick.key[0], pick.key[1], dict(pick.limits), list(pick.alternates), record) for pick in self.picks
        ]
