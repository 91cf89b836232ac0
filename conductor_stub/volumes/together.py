# SPDX-License-Identifier: Apache-2.0
"""Steps of several volumes in one transaction.

Each transaction that changes what schedulers read waits for the newest generation. Under load the conductor therefore
records the steps that arrive meanwhile together: see :mod:`conductor_stub.steps.group_commit`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from conductor_stub.steps.group_commit import GroupCommit
from fleet import errors, failpoints
from fleet.db.engine.database import Database, Transaction
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import pools, volumes

#: Steps that one caller records in one transaction.
MOST = 64
#: Answers about one volume: nothing is written for it then.
_REFUSALS = (errors.PoolSpaceUnavailable, errors.NotFound)


@dataclasses.dataclass(frozen=True)
class Step:
    """:param pool: that it locks, if this is known: all transactions lock pools in one order"""

    work: Callable[..., Any]
    uuid: str
    pool: tuple[str, str] | None
    args: tuple[Any, ...]


class Steps:
    """Writes the step of one volume, perhaps with those of others."""

    def __init__(self, database: Database, grouped: Callable[..., GroupCommit[Any, Any]] = GroupCommit) -> None:
        """:param grouped: makes a group commit; the simulation has its own, because it has no threads"""
        self._database = database
        self._writes: GroupCommit[Step, Any] = grouped(self._write_all, key=lambda step: step.uuid)

    def write(self, work: Callable[..., Any], uuid: str, *args: object, pool: tuple[str, str] | None = None) -> Any:
        """Run ``work(tx, *args)`` and return its answer.

        :param work: locks nothing but the volume and one pool
        :raises Exception: what the work raises
        """
        return self.record(Step(work, uuid, pool, args))

    def record(self, step: Step) -> Any:
        """See :meth:`write`."""
        return self._writes.write(step)

    def write_each(self, steps: Sequence[Step]) -> Sequence[Any]:
        """Return what each step's work returns or raises, in their order."""
        return [
            answer
            for start in range(0, len(steps), MOST)
            for answer in self._writes.write_each(steps[start : start + MOST])
        ]

    def _write_all(self, steps: Sequence[Step]) -> Sequence[Any]:
        return self._database.write(transaction(steps))


def transaction(steps: Sequence[Step]) -> Callable[[Transaction], list[Any]]:
    @failpoints.commits_all([each.work for each in steps])
    def record(tx: Transaction) -> list[VolumeRow]:
        if len(steps) > 1:
            volumes.lock_all(tx, [each.uuid for each in steps])
            pools.lock_all(tx, [each.pool for each in steps if each.pool])
        answers: list[Any] = [None] * len(steps)
        for index in sorted(range(len(steps)), key=lambda index: steps[index].pool or ()):
            try:
                answers[index] = steps[index].work(tx, *steps[index].args)
            except _REFUSALS as refusal:
                if len(steps) == 1:
                    raise
                answers[index] = refusal
        return answers

    return record
