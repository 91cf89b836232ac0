# SPDX-License-Identifier: Apache-2.0
"""What a decision is: the picks, what each filter saw and kept, and why hosts ran out if they did."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fleet.objects import Place, Selection
from scheduler.engine.consumption import Consumption
from scheduler.engine.filtering import FilterCount, Tally
from scheduler.engine.host_table import Key
from scheduler.why.refusal import Refusal


@dataclasses.dataclass(frozen=True)
class Pick:
    """The host chosen for one instance, with its limits, and the runners-up."""

    instance_uuid: str
    key: Key
    limits: Mapping[str, Any]
    weight: float
    alternates: Sequence[Place] = ()


@dataclasses.dataclass(frozen=True)
class StateAge:
    """What was known when it was decided: the feed's generation, and how old the newest reading of it was.

    ``stale``: the database could not be read for this decision.
    """

    generation: int
    age_s: float
    stale: bool = False

    def to_wire(self) -> dict[str, Any]:
        return {"generation": self.generation, "age_s": round(self.age_s, 3), "stale": self.stale}


@dataclasses.dataclass(frozen=True)
class Decision:
    """``picks`` in the order of the instances, as far as hosts were found.

    The filters' counts are over all instances of the request: who dropped a host first, whether before or after one.
    ``refusal`` says why, if not all found one; ``remarks`` are sentences about plugins that misbehaved; ``scores`` tell,
    if they were asked for, how the best hosts for the first instance came to their weights.
    """

    requested: int
    considered: int
    picks: Sequence[Pick]
    tally: Tally
    amounts: Consumption
    refusal: Refusal | None = None
    remarks: Sequence[str] = ()
    state: StateAge | None = None
    instance_type_id: int | None = None
    scores: Sequence[dict[str, Any]] = ()

    @property
    def counts(self) -> Sequence[FilterCount]:
        return self.tally.counts()

    @property
    def complete(self) -> bool:
        return len(self.picks) == self.requested

    @property
    def reason(self) -> str:
        """Why it is not complete, in plain words."""
        if self.refusal is None:
            return ""
        said = [self.refusal.sentence]
        if self.picks:
            said.append(f"{len(self.picks)} of {self.requested} instances would have been placed.")
        if self.state and self.state.stale:
            said.append(f"STALE: the database cannot be read, the state is {self.state.age_s:.0f} s old.")
        return " ".join([*said, *self.remarks])

    def to_wire(self) -> dict[str, Any]:
        """The decision record of ``docs/explain.md``."""
        return {
            "requested": self.requested,
            "considered": self.considered,
            "placed": len(self.picks),
            "filters": [count.to_wire() for count in self.counts],
            **({"state": self.state.to_wire()} if self.state else {}),
            **({"remarks": list(self.remarks)} if self.remarks else {}),
            **(self.refusal.to_wire() if self.refusal else {}),
        }

    def selections(self) -> list[Selection]:
        record = self.to_wire()
        return [
            Selection(pick.key[0], pick.key[1], dict(pick.limits), list(pick.alternates), record) for pick in self.picks
        ]
