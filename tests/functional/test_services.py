# SPDX-License-Identifier: Apache-2.0
"""Who serves a host, as the ledger tells it."""

from __future__ import annotations

import uuid

import pytest

from fleet import errors
from fleet.db.engine import Database
from tests.functional.conductor import INCARNATION, Conductor


@pytest.fixture
def conductor(database: Database) -> Conductor:
    conductor = Conductor(database)
    for host in ("h1", "h2"):
        conductor.add_host(host)
    return conductor


TAKEOVERS = [
    ("the same machine, at once", "one", 0, True),
    ("another machine while the first lives", "two", 0, False),
    ("another machine when the first is no longer heard of", "two", 61, True),
]


@pytest.mark.parametrize(("who", "identity", "silence_s", "taken"), TAKEOVERS, ids=[case[0] for case in TAKEOVERS])
def test_who_may_take_a_host_over(conductor: Conductor, who: str, identity: str, silence_s: float, taken: bool) -> None:
    """A restart may; a second agent that was given a name in use is told who has it, and nothing of it is registered."""
    machines = {"one": str(uuid.UUID(int=1)), "two": str(uuid.UUID(int=2))}
    first = {"host": "h9", "binary": "fleet-compute", "topic": "compute", "pid": 7, "hostname": "m1"}
    conductor.records.register_services([{**first, "incarnation": "a", "identity": machines["one"]}])
    conductor.clock.advance(silence_s)
    second = {**first, "incarnation": "b", "identity": machines[identity], "pid": 8}
    if taken:
        conductor.records.register_services([{**second, "host": "h8"}, second])
        assert ["h9"] == conductor.records.report_state("fleet-compute", ["h9"], "a")
        return
    with pytest.raises(errors.HostTaken) as refused:
        conductor.records.register_services([{**second, "host": "h8"}, second])
    assert f"Host h9 is served by another agent: pid 7 on m1, identity {machines['one']}, since" in str(refused.value)
    assert [] == conductor.records.report_state("fleet-compute", ["h9"], "a")
    assert "h8" not in {service["host"] for service in conductor.operator.list_services()}


def test_an_agent_that_leaves_is_down_at_once(conductor: Conductor) -> None:
    """It need not be missed first, and another machine may take its host over."""
    conductor.records.leave("fleet-compute", ["h1"], INCARNATION)
    conductor.records.leave("fleet-compute", ["h2"], "an earlier life")
    states = {service["host"]: service["state"] for service in conductor.operator.list_services()}
    assert ("down", "up") == (states["h1"], states["h2"])
    conductor.add_host("h1")
    assert "up" == conductor.operator.show_host("h1")["nodes"][0]["state"]
