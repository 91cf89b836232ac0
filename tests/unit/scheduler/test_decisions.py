# SPDX-License-Identifier: Apache-2.0
"""Decisions are kept by request id, bounded in number and age, and never in the way of a decision."""

from __future__ import annotations

import os
import pathlib
import sqlite3
import stat
import threading
from typing import Any

import pytest

from fleet import errors
from fleet.context import RequestContext
from scheduler.compute.drivers import kept_decisions
from scheduler.compute.filters import CoreFilter
from scheduler.why.decisions.store import DecisionStore
from tests import factories
from tests.unit.scheduler.plugins import configuration

DAY_S = 86_400


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def file(tmp_path: pathlib.Path) -> str:
    return str(tmp_path / "decisions.db")


def store(file: str, clock: Clock, most: int = 100) -> DecisionStore:
    return DecisionStore(file, most, keep_days=2, clock=clock, pause_s=0)


def keep(kept: DecisionStore, request_id: str, number: int) -> None:
    kept.keep(request_id, lambda: {"number": number})
    kept.wait()


def test_the_decisions_of_a_request(file: str, clock: Clock) -> None:
    """In their order, also from another process, and none of another request. Only the owner reads the file."""
    kept = store(file, clock)
    for number, request_id in enumerate(("req-1", "req-2", "req-1")):
        keep(kept, request_id, number)
    assert [{"number": 0}, {"number": 2}] == store(file, clock).of("req-1")
    assert [] == kept.of("req-3")
    assert 0o600 == stat.S_IMODE(os.stat(file).st_mode)


def test_how_many_are_kept(file: str, clock: Clock) -> None:
    """The newest by number, and none that is too old."""
    kept = store(file, clock, most=3)
    for number in range(5):
        keep(kept, "req-1", number)
    assert [2, 3, 4] == [each["number"] for each in kept.of("req-1")]
    clock.now += 2 * DAY_S + 1
    keep(kept, "req-1", 5)
    assert [5] == [each["number"] for each in kept.of("req-1")]


def test_a_file_that_cannot_be_written(tmp_path: pathlib.Path, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Deciding goes on; the log says it once a minute."""
    kept = store(str(tmp_path / "missing/decisions.db"), clock)
    keep(kept, "req-1", 1)
    keep(kept, "req-1", 2)
    assert 1 == caplog.text.count("Decisions cannot be kept: ")
    assert [] == kept.of("req-1")


def test_a_file_that_is_no_database(file: str, clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    """Reading it is a refusal that names the option; writing it is a log line."""
    pathlib.Path(file).write_text("no database " * 100)
    keep(store(file, clock), "req-1", 1)
    assert "file is not a database" in caplog.text
    kept = kept_decisions.from_conf(configured(file))
    assert kept is not None
    with pytest.raises(errors.ConfigError, match=r"Option \[decisions\] file cannot be read: .*not a database"):
        kept.of("req-1")


def configured(file: str) -> Any:
    conf = configuration()
    conf.set_override("file", file, "decisions")
    return conf


def test_what_is_kept(file: str) -> None:
    """Of a decision the hosts, weights and counts; of a refusal its reason."""
    kept = kept_decisions.from_conf(configured(file))
    assert kept is not None
    context = RequestContext(request_id="req-7", overwrite=False)
    hosts = factories.candidates(factories.node("host1", vcpus=4), factories.node("host2", vcpus=8))
    pipeline = factories.pipeline([CoreFilter()])
    for vcpus in (5, 900):
        request = factories.request({"vcpus": vcpus, "memory_mb": 1, "name": "wide"}, {"project_id": "p1"})
        kept.keep(context, request, factories.decision(pipeline, hosts, request))
    kept._store.wait()
    placed, refused = kept.of("req-7")
    assert ("placed", "p1", "wide") == (placed["outcome"], placed["project_id"], placed["flavor"])
    assert ["host2"] == [pick["host"] for pick in placed["picks"]]
    assert [{"name": "CoreFilter", "start": 2, "end": 1}] == placed["details"]["filters"]
    assert ("refused", "NEVER_FITS") == (refused["outcome"], refused["details"]["reason_code"])
    assert "vcpu" in refused["message"]


def test_without_the_option() -> None:
    assert kept_decisions.from_conf(configuration()) is None


def test_a_record_that_cannot_be_made_spoils_no_other(file: str, clock: Clock) -> None:
    kept = DecisionStore(file, 100, keep_days=2, clock=clock, pause_s=0.2)
    for request_id, make in (("r1", lambda: {"number": 1}), ("r2", lambda: 1 / 0), ("r3", lambda: {"number": 3})):
        kept.keep(request_id, make)  # type: ignore[arg-type]
    kept.wait()
    assert [[{"number": 1}], [], [{"number": 3}]] == [kept.of(each) for each in ("r1", "r2", "r3")]


def test_without_a_thread_decisions_wait_for_the_next(file: str, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = store(file, clock)

    def refuses(_thread: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuses)
        kept.keep("r1", lambda: {"number": 1})
    keep(kept, "r2", 2)
    assert ([{"number": 1}], [{"number": 2}]) == (kept.of("r1"), kept.of("r2"))


def test_a_damaged_record_is_named(file: str, clock: Clock) -> None:
    kept = store(file, clock)
    keep(kept, "r1", 1)
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE decisions SET record = '{'")
    with pytest.raises(OSError, match="damaged record"):
        kept.of("r1")
