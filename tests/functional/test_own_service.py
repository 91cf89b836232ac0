# SPDX-License-Identifier: Apache-2.0
"""The scheduler's row in nova's list of services, on every engine: made once, renewed, and no other row is changed."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from fleet import errors
from fleet.clock import seconds
from fleet.db.nova.own_service import OwnService
from scheduler.nova.heartbeat import Heartbeat
from tests.clock import FakeClock
from tests.factories import NOW
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases

_ROWS = nova_schema.SERVICES


@pytest.fixture(autouse=True)
def further_ids(nova: Databases) -> None:
    """The rows of the fixture have ids of their own; PostgreSQL does not skip those."""
    if nova.url.startswith("postgresql"):
        engine = sa.create_engine(nova.url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT setval('services_id_seq', 100)"))


def _schedulers(nova: Databases) -> list[Any]:
    engine = sa.create_engine(nova.url, poolclass=sa.NullPool)
    with engine.connect() as connection:
        return list(connection.execute(sa.select(_ROWS).where(_ROWS.c.binary == "nova-scheduler").order_by(_ROWS.c.id)))


def test_a_row_of_its_own(nova: Databases) -> None:
    """With the newest version of nova's services, enabled, and seen when it was written last."""
    nova.update(_ROWS, 1, version=68)
    clock = FakeClock()
    row = OwnService(nova.url, "sched1", clock)
    try:
        row.beat()
        clock.now += seconds(10)
        row.beat()
    finally:
        row.dispose()
    (made,) = _schedulers(nova)
    assert ("sched1", "scheduler", 68, 1) == (made.host, made.topic, made.version, made.report_count)
    assert (False, False, 0) == (made.disabled, made.forced_down, made.deleted)
    assert (clock.now, clock.now - seconds(10)) == (made.last_seen_up, made.created_at)
    assert made.uuid


def test_the_row_of_the_scheduler_before_it(nova: Databases) -> None:
    """Is renewed if it has the same name, with the newest version; that of another host and a deleted one are left alone."""
    same = dict(binary="nova-scheduler", topic="scheduler", last_seen_up=NOW, created_at=NOW, version=60)
    nova.insert(_ROWS, id=11, host="ctl1", report_count=7, deleted=0, **same)
    nova.insert(_ROWS, id=12, host="ctl2", report_count=7, deleted=0, **same)
    nova.insert(_ROWS, id=13, host="ctl1", report_count=7, deleted=13, **same)
    nova.update(_ROWS, 1, version=68)  # nova was upgraded
    clock = FakeClock()
    clock.now += seconds(60)
    row = OwnService(nova.url, "ctl1", clock)
    row.beat()
    row.dispose()
    assert [68, 60, 60] == [each.version for each in _schedulers(nova)]
    assert [(8, clock.now), (7, NOW), (7, NOW)] == [
        (each.report_count, each.last_seen_up) for each in _schedulers(nova)
    ]


def test_a_database_that_is_away(
    nova: Databases, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Is one line of the log, and one when it is back."""
    row = OwnService(nova.url, "sched1", FakeClock())
    heartbeat = Heartbeat(row)

    def away() -> None:
        raise errors.DatabaseUnavailable(kind="DBConnectionError", problem="refused")

    with monkeypatch.context() as patched:
        patched.setattr(row, "beat", away)
        heartbeat.beat()
        heartbeat.beat()
    assert 1 == caplog.text.count("cannot be written")
    caplog.set_level("INFO")
    heartbeat.beat()
    row.dispose()
    assert "is written again" in caplog.text
    assert 1 == len(_schedulers(nova))


def test_a_wrong_url(nova: Databases) -> None:
    with pytest.raises(errors.ConfigError, match="service_connection"):
        OwnService("nonsense", "sched1", FakeClock())
