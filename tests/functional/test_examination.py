# SPDX-License-Identifier: Apache-2.0
"""A conductor's findings about the fleet's condition."""

from __future__ import annotations

import pytest

from conductor_stub.agents.guests import Observation
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.volumes.sweeper import VolumeSweeper
from fleet import states
from fleet.db.engine.database import Database
from fleet.db.hosts.heartbeats import Heartbeat
from fleet.db.schema import schema
from fleet.telemetry import metrics
from tests.worlds.conductor import INCARNATION, Conductor, context
from tests.worlds.volumes import LIMITS, Volumes


def test_the_conductor_looks(database: Database) -> None:
    """It reports orphans of the agents, overdue steps, services with heartbeats in the future, and the schema."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    examination = Diagnosis(database, "c1", conductor.clock)
    found = examination.run()
    assert ([], 0, []) == (found["orphans"], found["overdue"], found["ahead"])
    assert ("c1", conductor.clock().isoformat()) == (found["host"], found["now"])
    assert (schema.latest(), schema.latest()) == (found["database"]["version"], found["database"]["expected"])
    report = {"host": "h1", "node": "h1", "vcpus": 8, "memory_mb": 8000, "local_gb": 100, "orphaned_memory_mb": 64}
    conductor.agents.report_hosts([report], {"h1": ["h1"]})
    conductor.create()
    conductor.clock.advance(300)
    assert 1 == examination.run()["overdue"]
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    conductor.clock.advance(-10)
    found = examination.run()
    assert [{"host": "h1", "node": "h1", "memory_mb": 64}] == found["orphans"]
    assert ["fleet-compute on h1"] == found["ahead"]


def test_an_examination_after_a_loss_of_power_is_not_too_large(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first ones of each kind are named, and all are counted: an answer about each guest would not be carried."""
    monkeypatch.setattr("fleet.db.upkeep.diagnosis.MOST_NAMED", 2)
    conductor = Conductor(database)
    uuids = []
    for host in ("h1", "h2", "h3"):
        conductor.add_host(host)
        report = {"host": host, "node": host, "vcpus": 8, "memory_mb": 8000, "local_gb": 100, "orphaned_memory_mb": 64}
        conductor.agents.report_hosts([report], {host: [host]})
        uuids.append(conductor.place(host))
        conductor.claim(uuids[-1], host)
        conductor.finish(uuids[-1], host)
        conductor.agents.observed(context(), Observation(uuids[-1], host, states.CRASHED, states.RUNNING, False))
    conductor.clock.advance(-10)
    found = Diagnosis(database, "c1", conductor.clock).run()
    assert {"down": 3, "orphans": 3, "ahead": 3} == found["numbers"]
    assert (2, 2, 2) == tuple(len(found[kind]) for kind in ("down", "orphans", "ahead"))
    assert sorted(uuids)[:2] == [each["uuid"] for each in found["down"]]


def test_volumes_that_nobody_sweeps_and_that_are_stuck(database: Database) -> None:
    """Overdue steps are counted, and volumes that their backend did not delete in time are named."""
    volumes = Volumes(database)
    examination = Diagnosis(database, "c1", volumes.clock)
    uuid = volumes.available(name="data")
    volumes.operator.delete_volume(uuid)
    assert {"overdue": 0, "stuck": []} == examination.run()["volumes"]
    volumes.clock.advance(700)
    assert 1 == examination.run()["volumes"]["overdue"]
    VolumeSweeper(database, volumes.volume_placement, LIMITS, volumes.clock).sweep()
    stuck = [{"name": "data", "status": "error_deleting", "host": "m1@fast"}]
    assert {"overdue": 0, "stuck": stuck} == examination.run()["volumes"]
    assert 2 == metrics.POOLS.collect()[0].samples[0].value


def test_a_server_without_copies(conductor: Conductor) -> None:
    """A single server reports no replication, on each database."""
    assert conductor.operator.examine()["replication"] is None
