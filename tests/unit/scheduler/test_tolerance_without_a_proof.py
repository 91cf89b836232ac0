# SPDX-License-Identifier: Apache-2.0
"""Promises before their first proof, after failed proofs, and on hosts that no proof has seen."""

from __future__ import annotations

import contextlib
import itertools
import threading
import types

import pytest

from fleet import errors
from fleet.objects.tolerance import AGGREGATE, LAST, REFUSE, WARN, Tolerance
from scheduler.compute.planning.losses import promises
from scheduler.compute.service import Awaited
from scheduler.compute.tolerance.report import ProofReport
from scheduler.planning.hypothetical import FixedFeed
from scheduler.planning.survival.room import Verdict
from tests.factories import aggregate
from tests.unit.scheduler.test_rebalance import FilledHosts
from tests.unit.scheduler.test_tolerance import HOSTS, Stage, objections, refused

UNSEEN = "takes no more until a proof has seen it"


class Silent(Stage):
    """No conductor answers as long as ``is_silent``."""

    is_silent = True

    def _ask(self, uuids: list[str]) -> list[dict[str, object]]:
        if self.is_silent:
            raise errors.ServiceDown(binary="fleet-conductor", host="-", reason="does not answer")
        return super()._ask(uuids)


@pytest.fixture(autouse=True)
def _failing_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage begins with a proof, which fails if its conductor is silent."""
    prove = promises.Prover.prove

    def proved(prover: promises.Prover) -> None:
        with contextlib.suppress(errors.ServiceDown):
            prove(prover)

    monkeypatch.setattr(promises.Prover, "prove", proved)


def test_without_any_proof_a_promise_refuses_until_there_is_one() -> None:
    stage = Silent(HOSTS, Tolerance(policy=REFUSE))
    assert not stage.prover.is_ready.is_set()
    assert UNSEEN in refused(stage, 1)
    stage.is_silent = False
    stage.prover.prove()
    assert stage.prover.is_ready.is_set()
    assert "c" == stage.build(1)


@pytest.mark.parametrize("policy", [WARN, LAST])
def test_other_policies_place_and_count(policy: str) -> None:
    before = objections(policy)
    assert "c" == Silent(HOSTS, Tolerance(policy=policy)).build(1)
    assert before + 1 == objections(policy)


def test_a_promise_of_an_aggregate_binds_no_other_host() -> None:
    inside = aggregate(["c"], 1)
    stage = Silent(HOSTS, Tolerance(kind=AGGREGATE, name=inside.name, policy=REFUSE), aggregates=[inside])
    assert stage.build(1) in ("a", "b")


def test_each_promise_is_a_loss_that_is_not_proved() -> None:
    shown = Silent(HOSTS, Tolerance(), Tolerance(number=2)).driver.describe_filters()["promises"]
    assert (0, 0, 2) == (shown["safe"], shown["unsafe"], shown["not proved"])


def test_a_promise_that_is_made_later_binds_from_its_first_proof_on() -> None:
    """Setting it refuses nothing while its plans are made. If that fails, its policy decides."""
    stage = Silent(HOSTS)
    assert stage.prover.is_ready.is_set()
    stage.promises.append(Tolerance(policy=REFUSE))
    assert "c" == stage.build(1)
    stage.prover.prove()
    assert UNSEEN in refused(stage, 1)


def add(stage: Stage, hosts: dict[str, list[int]]) -> None:
    """Let the scheduler read these hosts. No proof follows."""
    stage.guests = {host: list(sizes) for host, sizes in hosts.items()}
    stage.driver.host_manager._feed = FixedFeed(FilledHosts(hosts).state)
    stage.driver.host_manager._cache.generation = 0


def test_a_host_that_came_after_the_proof_takes_nothing() -> None:
    """d is the emptiest. It is no place for guests of lost hosts, either: c keeps 4 of 8 and has room for one of 1 more."""
    hosts = {"a": [4], "b": [4], "c": []}
    stage = Stage(hosts, Tolerance(policy=REFUSE))
    add(stage, {**hosts, "d": []})
    with pytest.raises(errors.NoValidHost, match=f"d {UNSEEN}"):
        stage.build(1, requested_destination={"host": "d"})
    assert {stage.build(1) for _build in range(3)} <= set(hosts)
    guard = stage.driver.admission._guard
    assert guard is not None
    assert set(hosts) == guard.hosts
    assert {host for host, _node in guard.keeping} <= set(hosts)


def test_a_host_that_came_after_the_proof_is_taken_by_other_policies() -> None:
    stage = Stage({"a": [4], "b": [4], "c": [7]}, Tolerance(policy=LAST))
    add(stage, {"a": [4], "b": [4], "c": [7], "d": []})
    assert "d" == stage.build(8)


def test_the_age_of_a_proof() -> None:
    now = [10.0]
    report = ProofReport(lambda: now[0])
    assert (0.0, None) == (report.age_s, report.answer())
    report.missing(1)
    now[0] = 40.0
    report.missing(1)
    assert 30.0 == report.age_s
    report.proved({Verdict.SAFE: 3}, [], [])
    now[0] = 45.5
    answer = report.answer()
    assert answer is not None
    assert (3, 5) == (answer["safe"], answer["age"])
    report.confirmed()
    assert 0.0 == report.age_s
    report.nothing_promised()
    now[0] = 99.0
    assert (0.0, None) == (report.age_s, report.answer())


def test_the_prover_rests_for_half_a_minute_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that goes on by 10 s with each look at it, a proof takes long."""
    stage = Stage(HOSTS, Tolerance())
    stage.prover._rests_until = 0.0
    ticks = itertools.count(1000.0, 10.0)
    monkeypatch.setattr(promises, "time", types.SimpleNamespace(monotonic=lambda: next(ticks)))
    stage.prover.prove()
    assert next(ticks) + 30.0 >= stage.prover._rests_until > 1000.0


@pytest.mark.parametrize(("is_set", "warnings"), [(True, 0), (False, 1)])
def test_the_start_waits_for_the_first_proof_for_a_limited_time(
    is_set: bool, warnings: int, caplog: pytest.LogCaptureFixture
) -> None:
    proved = threading.Event()
    if is_set:
        proved.set()
    awaited = Awaited(proved, 0.0, "the first proof")
    awaited.start()
    awaited.stop()
    awaited.wait()
    assert warnings == caplog.text.count("Serving after 0 s without the first proof")
