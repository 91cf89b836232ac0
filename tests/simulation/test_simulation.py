# SPDX-License-Identifier: Apache-2.0
"""Twenty seeds with every run, a few hundred with ``make long``; ``make simulation`` plays ten thousand."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conductor_stub.builds import claims
from conductor_stub.steps.machine import PlacedRow
from conductor_stub.upkeep_conf import FENCE_NONE
from fleet import states
from fleet.db.instances import addresses, instance_values, instances
from fleet.db.volumes import pools
from fleet.objects import Claim, Instance
from tests.configuration import of_scheduler
from tests.simulation import processes, recovering
from tests.simulation.database import SimulatedDatabase
from tests.simulation.recovering import Recovering
from tests.simulation.scenario import Scenario

SEEDS = range(300)
BATCH = 20
#: The first of the seeds that batches play beyond their own.
FURTHER = 1_000_000
TROUBLES = {
    "answer lost",
    "backend fails",
    "backend hangs",
    "commit unknown",
    "deadlock",
    "death",
    "driver fails",
    "driver hangs",
    "guest dies",
    "message late",
    "message lost",
    "message repeated",
}


@pytest.fixture(scope="module")
def simulated() -> Iterator[SimulatedDatabase]:
    logging.disable(logging.CRITICAL)
    with SimulatedDatabase.open().disposed() as database:
        yield database
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "first", [pytest.param(first, marks=pytest.mark.long if first else ()) for first in SEEDS[::BATCH]]
)
def test_seeds_hold(simulated: SimulatedDatabase, first: int) -> None:
    """Whatever goes wrong, every build and volume ends, nothing is sold twice, and all sides agree when it is over.

    The rarest trouble is met in one seed of seven: some batches lack it after one change of the code or another. Such a
    batch goes on, with seeds of its own, until all have been met.
    """
    ended: collections.Counter[str] = collections.Counter()
    met: collections.Counter[str] = collections.Counter()
    more = range(FURTHER + first * BATCH, FURTHER + (first + 10) * BATCH)
    for number, seed in enumerate([*range(first, first + BATCH), *more]):
        if number >= BATCH and met.keys() >= TROUBLES:
            break
        verdict = Scenario(seed, simulated).play()
        ended.update(verdict.ended)
        met.update(verdict.met)
        assert [] == verdict.wrong, "\n".join([*verdict.history, f"seed {seed}"])
    assert ended["active"] > BATCH
    assert ended["volume available"] > BATCH
    assert TROUBLES == met.keys()


def test_seeds_with_recovery_hold(simulated: SimulatedDatabase) -> None:
    """A host dies for good: its guests are evacuated after its fence, and none runs twice."""
    ended: collections.Counter[str] = collections.Counter()
    for seed in range(60):
        verdict = Recovering(seed, simulated).play()
        ended.update(verdict.ended)
        assert [] == verdict.wrong, "\n".join([*verdict.history, f"seed {seed}"])
        if seed >= 5 and ended["recovery done"] >= 2 and ended["evacuation completed"] >= 2:
            return
    raise AssertionError(ended)


@pytest.mark.long
def test_a_missing_fence_is_caught(simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that is only cut off runs on, and some seed shows it."""
    monkeypatch.setattr(recovering, "SETTINGS", dataclasses.replace(recovering.SETTINGS, fence=FENCE_NONE))
    monkeypatch.setattr(Recovering, "DIES", 0.0)
    assert any("recovered from" in line for seed in range(200) for line in Recovering(seed, simulated).play().wrong)


def test_a_seed_plays_the_same_every_time(simulated: SimulatedDatabase) -> None:
    """Two runs of one seed tell the same story."""
    first, second = (Scenario(7, simulated).play() for _run in range(2))
    assert first.history == second.history


@pytest.mark.long
def test_a_shadow_changes_nothing(
    simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    """With ``[shadow] config_file`` for all requests, schedulers answer as without it: each seed has the same history."""
    seeds = range(4, 10)  # some of them have room for another choice
    plain = [Scenario(seed, simulated).play() for seed in seeds]
    (tmp_path / "candidate.conf").write_text("[DEFAULT]\nram_weight_multiplier = -1.0\n")
    conf, report = of_scheduler(), tmp_path / "report.json"
    for name, value in (("config_file", f"{tmp_path}/candidate.conf"), ("share", 1.0), ("report_file", f"{report}")):
        conf.set_override(name, value, "shadow")
    monkeypatch.setattr(processes, "_scheduler_conf", lambda: conf)
    shadowed = [Scenario(seed, simulated).play() for seed in seeds]
    for before, after in zip(plain, shadowed, strict=True):
        assert before.history == after.history, f"seed {before.seed}"
    kinds = {each["kind"] for each in json.loads(report.read_text())["sums"]}
    assert {"same", "fits"} <= kinds  # it has decided, and otherwise


def test_a_broken_ledger_is_caught(simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison of status and attempt before a claim, some seed shows it: the invariants can fail."""
    claim = claims._WORK[Claim]

    @functools.wraps(claim)
    def claim_anything(step, row, ctx):
        expected = {"vm_state": states.BUILDING, "task_state": states.PLACING, "attempt": step.attempt}
        return claim(step, instances.moved(row, expected), ctx)

    monkeypatch.setitem(claims._WORK, Claim, claim_anything)
    assert any(Scenario(seed, simulated).play().wrong for seed in SEEDS)


@pytest.mark.long
def test_a_broken_ledger_of_pools_is_caught(simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison of a claim with the room of its pool, some seed shows it."""
    monkeypatch.setattr(pools, "require_room", lambda *_claim: None)
    assert any(Scenario(seed, simulated).play().wrong for seed in SEEDS)


@pytest.mark.long
def test_a_broken_machine_is_caught(simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparison of status and attempt before a step, some seed shows it."""
    monkeypatch.setattr(PlacedRow, "is_at", lambda *_expected: True)
    assert any(Scenario(seed, simulated).play().wrong for seed in SEEDS)


def test_an_address_that_is_not_released_is_caught(
    simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(addresses, "release", lambda *_instance: None)
    assert any("I17" in line for seed in SEEDS for line in Scenario(seed, simulated).play().wrong)


def test_a_move_that_forgets_an_address_is_caught(
    simulated: SimulatedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest of the destination has none then."""
    forgotten = functools.partial(_without_addresses, instance_values.to_instance)
    monkeypatch.setattr(instance_values, "to_instance", forgotten)
    assert any("I17" in line for seed in SEEDS for line in Scenario(seed, simulated).play().wrong)


def _without_addresses(to_instance: Callable[[Any], Instance], row: Any) -> Instance:
    found = to_instance(row)
    return found if row.task_state in (None, states.SPAWNING) else dataclasses.replace(found, interfaces=None)
