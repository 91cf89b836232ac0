# SPDX-License-Identifier: Apache-2.0
"""A build costs each daemon one line at INFO, and the conductor one more that accepts it (docs/operate.md)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from tests.amqp.daemons import Trio, eventually

DAEMONS = {"conductor": "conductor", "scheduler": "scheduler", "agent-a": "agent", "agent-b": "agent"}


def lines(trio: Trio, uuid: str) -> dict[str, list[str]]:
    """The lines of the request that made ``uuid``, by daemon, with those of libraries under its request id."""
    request_id = trio.show(uuid)["instance"]["request_id"]
    found: dict[str, list[str]] = {"conductor": [], "scheduler": [], "agent": []}
    for name, daemon in DAEMONS.items():
        found[daemon] += [line for line in trio.log(name).splitlines() if request_id in line]
    return found


def counts(found: dict[str, list[str]]) -> dict[str, int]:
    return {daemon: len(said) for daemon, said in found.items()}


BUILDS: list[tuple[str, dict[str, Any], str, dict[str, int]]] = [
    ("one that succeeds", {}, "active", {"conductor": 2, "scheduler": 1, "agent": 1}),
    ("three of one request", {"count": 3}, "active", {"conductor": 4, "scheduler": 1, "agent": 3}),
    (
        "one that no host can take",
        {"flavor": {"vcpus": 1, "memory_mb": 10_000_000}},
        "error",
        # nova's "Filter … returned 0 hosts" comes before the decision's own line.
        {"conductor": 2, "scheduler": 2, "agent": 0},
    ),
]


@pytest.mark.parametrize(("what", "request_", "state", "expected"), BUILDS, ids=[case[0] for case in BUILDS])
def test_a_build(trio: Trio, what: str, request_: dict[str, Any], state: str, expected: dict[str, int]) -> None:
    """One line where the request is accepted, one for the decision, and one for each instance where it was built and where
    it was recorded.
    """
    uuids = trio.boot(**request_)
    trio.wait_for(uuids, state)
    # The agent has said its word when the conductor's answer has come back to it.
    with contextlib.suppress(AssertionError):  # the comparison below shows the lines
        eventually(lambda: sum(counts(lines(trio, uuids[0])).values()) >= sum(expected.values()))
    found = lines(trio, uuids[0])
    assert expected == counts(found), found


def test_what_a_line_carries(trio: Trio) -> None:
    """The request id, the instance, the attempt and the host; duration and resources in words."""
    (uuid,) = trio.boot()
    trio.wait_for([uuid], "active")
    found = eventually(lambda: lines(trio, uuid) if lines(trio, uuid)["agent"] else None)
    host = trio.show(uuid)["instance"]["host"]
    accepted = next(line for line in found["conductor"] if "Act server.create" in line)
    assert f"request {trio.show(uuid)['instance']['request_id']}" in accepted
    found["conductor"].remove(accepted)
    for daemon in ("conductor", "agent"):
        (line,) = found[daemon]
        assert f"attempt=1 host={host}] [instance: {uuid}]" in line
    assert "memory 512 MB, disk 1 GB, vcpus 1 VCPU" in found["agent"][0]
    assert f"s after it was accepted in {trio.show(uuid)['instance']['reservation_id']}" in found["conductor"][0]
    assert "attempt=1" in found["scheduler"][0]


def test_a_deletion(trio: Trio) -> None:
    """One line where the guest was destroyed, one where that was recorded."""
    (uuid,) = trio.boot()
    trio.wait_for([uuid], "active")
    trio.terminate([uuid])
    trio.wait_for([uuid], "deleted")

    def said() -> list[str]:
        text = [line for name in DAEMONS for line in trio.log(name).splitlines() if uuid in line]
        return sorted(line.rpartition("] ")[2] for line in text if "DELETED" in line or "destroyed" in line)

    assert ["Instance is DELETED", "Instance is destroyed"] == eventually(lambda: said() if len(said()) > 1 else None)
