# SPDX-License-Identifier: Apache-2.0
"""A shadow decides copies of nova's requests, and compares with where nova puts the servers."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from scheduler.nova.shadow.shadow import Shadow
from scheduler.why.shadow import ledger as ledgers
from scheduler.why.shadow import outcome
from scheduler.why.shadow.ledger import ShadowLedger
from scheduler.why.shadow.outcome import Kind
from scheduler.why.shadow.verdict import Verdict
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, envelope, flavor, message
from tests.unit.scheduler.nova.worlds import CELL, EndpointInMemory, instance_row, node_row


class Shadowed(EndpointInMemory):
    """cmp1 is the emptiest host, cmp3 is full."""

    adapter: Any

    def __init__(self, path: pathlib.Path) -> None:
        super().__init__(node_row("cmp1"), node_row("cmp2", free_ram_mb=4096), node_row("cmp3", free_ram_mb=0))
        self.now = 1000.0
        self.path = path
        self.ledger = ShadowLedger(path, 60, lambda: self.now)
        self.shadow = Shadow(self.driver, self.placing, self.ledger)

    def ask(self, number: int, **fields: Any) -> None:
        asked = arguments(instance_uuid=uuid(number), **fields)
        asked["instance_uuids"] = [uuid(number)]
        self.shadow.take({"method": "select_destinations", "args": asked})

    def appear(self, number: int, host: str | None) -> None:
        """nova has put the server there."""
        self.host_manager.hint(lambda cache: cache._apply_instance(instance_row(number, host), True))
        self.shadow.look()

    def sums(self) -> dict[tuple[str, str], int]:
        self.ledger.save()
        found = json.loads(self.path.read_text())["sums"]
        return {(each["kind"], each["reason"]): each["count"] for each in found}


@pytest.fixture
def world(tmp_path: pathlib.Path) -> Shadowed:
    return Shadowed(tmp_path / "shadow.json")


@pytest.mark.parametrize(
    ("host", "kind", "reason"),
    [
        ("cmp1", "same", ""),
        ("cmp2", "fits", ""),
        ("cmp3", "dropped", "RamFilter"),
        ("cmp9", "dropped", "not known here"),
        (None, "placed in the shadow only", ""),
    ],
)
def test_where_the_server_went(world: Shadowed, host: str | None, kind: str, reason: str) -> None:
    """Compared as soon as the server has a host, and after a time if it has none."""
    world.ask(1)
    world.shadow.look()
    assert not world.path.exists()
    if host is None:
        world.now += 61
        world.shadow.look()
    else:
        world.appear(1, host)
    assert {(kind, reason): 1} == world.sums()
    assert [] == [call for call in world.adapter.calls if call[0] != "GET"]
    assert 0 == world.bookings()


def test_a_host_that_the_request_excludes(world: Shadowed) -> None:
    world.ask(1, ignore_hosts=["cmp2"])
    world.appear(1, "cmp2")
    assert {("dropped", "excluded by the request"): 1} == world.sums()


@pytest.mark.parametrize(("host", "kind"), [("cmp2", "refused in the shadow"), (None, "both refused")])
def test_a_request_that_is_refused_here(world: Shadowed, host: str | None, kind: str) -> None:
    world.ask(1, flavor=flavor(memory_mb=100_000))
    if host is not None:
        world.appear(1, host)
    world.now += 61
    world.shadow.look()
    ((found, reason),) = world.sums()
    assert kind == found
    assert reason == ("RamFilter" if host else "NEVER_FITS")


def test_a_request_that_cannot_be_read_counts_as_refused_here(world: Shadowed) -> None:
    """nova has placed the first server, and the second is nowhere. The host of a server that moves is no answer."""
    world.host_manager.refresh()
    world.appear(3, "cmp2")
    for number in (1, 2, 3):
        world.ask(number, flavor=flavor(vcpus="two"))
    world.appear(1, "cmp2")
    assert {("refused in the shadow", "MISCONFIGURED"): 1} == world.sums()
    world.now += 61
    world.shadow.look()
    assert {("refused in the shadow", "MISCONFIGURED"): 1, ("both refused", "MISCONFIGURED"): 2} == world.sums()


def test_a_move(world: Shadowed) -> None:
    """The host that the server comes from is no answer. nova names the cell of each move."""
    world.host_manager.refresh()
    world.appear(1, "cmp2")
    destination = envelope("Destination", cell=envelope("CellMapping", uuid=CELL))
    world.ask(1, ignore_hosts=["cmp2"], requested_destination=destination)
    world.shadow.look()
    world.ledger.save()
    assert not world.path.exists()
    world.appear(1, "cmp1")
    assert {("same", ""): 1} == world.sums()


def test_what_is_no_request_is_left_out(world: Shadowed) -> None:
    """Casts, checks of a rebuild, requests without uuids, and nonsense."""
    for sent in (
        {"method": "update_aggregates", "args": {}},
        {"method": "select_destinations", "args": message("req_rebuild_check")["args"]},
        {"method": "select_destinations", "args": message("req_v43")["args"]},
        {"method": "select_destinations", "args": {"spec_obj": "nonsense"}},
        {"method": "select_destinations", "args": 7},
        {},
    ):
        world.shadow.take(sent)
    world.now += 1000
    world.shadow.look()
    world.ledger.save()
    assert not world.path.exists()


def test_the_instances_of_one_request_are_alike() -> None:
    """Which of them is on which host does not matter."""
    verdict = Verdict("small", ("cmp1", "cmp2"))
    assert Kind.SAME is outcome.compare(verdict, 0, "cmp2").kind
    assert Kind.FITS is outcome.compare(verdict, 1, "cmp3").kind


def test_the_report_goes_on_after_a_restart(world: Shadowed) -> None:
    """And a file that cannot be read is begun anew."""
    world.ask(1)
    world.appear(1, "cmp1")
    world.ledger.save()
    again = Shadowed(world.path)
    again.ask(2)
    again.appear(2, "cmp2")
    assert {("same", ""): 1, ("fits", ""): 1} == again.sums()
    world.path.write_text("{")
    anew = Shadowed(world.path)
    anew.ask(3)
    anew.appear(3, "cmp1")
    assert {("same", ""): 1} == anew.sums()


def test_a_report_that_cannot_be_written_is_written_later(world: Shadowed, monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that was counted before, during and after, each once."""

    def full(_source: object, _target: object) -> None:
        world.ledger.count(uuid(8), outcome.Outcome(Kind.SAME, "small"))
        raise OSError("No space left on device")

    world.ask(1)
    world.appear(1, "cmp2")
    with monkeypatch.context() as patched:
        patched.setattr(ledgers.os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            world.ledger.save()
    world.ledger.count(uuid(9), outcome.Outcome(Kind.SAME, "small"))
    for _time in range(2):
        assert {("fits", ""): 1, ("same", ""): 2} == world.sums()
    assert [uuid(1)] == [each["server"] for each in json.loads(world.path.read_text())["newest"]]


def test_the_report_is_bounded(world: Shadowed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many flavors the later ones are counted together; of the differences the newest are kept."""
    monkeypatch.setattr(ledgers, "MOST_SUMS", 3)
    for number in range(ledgers.NEWEST + 5):
        world.ledger.wait_for([uuid(number)], Verdict(f"flavor-{number}", ("cmp1",)))
    world.ledger.look(lambda uuids: dict.fromkeys(uuids, "cmp2"))
    world.ledger.save()
    found = json.loads(world.path.read_text())
    assert (4, ledgers.NEWEST) == (len(found["sums"]), len(found["newest"]))
    assert ledgers.NEWEST + 2 == next(each["count"] for each in found["sums"] if each["flavor"] == "others")


def test_many_that_wait(world: Shadowed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest are given up."""
    monkeypatch.setattr(ledgers, "MOST_WAITING", 3)
    world.ledger.wait_for([uuid(number) for number in range(5)], Verdict("small", ("cmp1",) * 5))
    world.ledger.look(lambda _uuids: {})
    world.ledger.save()
    assert {("placed in the shadow only", ""): 2} == world.sums()


def test_requests_that_follow_at_once(world: Shadowed) -> None:
    """The second is decided with the first on its host, before nova shows it there. A booking is no host of a server."""
    for number in (1, 2):
        world.ask(number, flavor=flavor(memory_mb=5000))
    assert [("cmp1",), ()] == [each.verdict.hosts for each in world.ledger._waiting.values()]
    world.shadow.look()
    assert [uuid(1), uuid(2)] == list(world.ledger._waiting)
    world.appear(1, "cmp1")
    assert {("same", ""): 1} == world.sums()
