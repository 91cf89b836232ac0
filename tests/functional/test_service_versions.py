# SPDX-License-Identifier: Apache-2.0
"""The API versions of services, in the ledger."""

from __future__ import annotations

import pytest

from fleet.db.hosts.heartbeats import Heartbeat
from tests.worlds.conductor import INCARNATION, Conductor

CASES = [
    ("nobody serves it", [], {}),
    ("all of one release", ["1.1", "1.1"], {"compute": "1.1"}),
    ("the oldest counts", ["1.1", "1.0"], {"compute": "1.0"}),
    ("by number and not by letter", ["1.10", "1.9"], {"compute": "1.9"}),
    ("one that does not say", ["1.1", None], {"compute": "1.0"}),
    ("one that makes no sense", ["1.1", "new"], {"compute": "1.0"}),
    ("one that is down", ["1.1", "down"], {"compute": "1.1"}),
]


HOSTS = ()


@pytest.mark.parametrize(("what", "spoken", "lowest"), CASES, ids=[case[0] for case in CASES])
def test_the_lowest_version_that_lives(
    conductor: Conductor, what: str, spoken: list[str | None], lowest: dict[str, str]
) -> None:
    """Of each topic, among the services that are up."""
    for number, each in enumerate(spoken):
        conductor.add_host(f"h{number}", rpc_version="1.0" if each == "down" else each)
        if each == "down":
            conductor.agents.leave("fleet-compute", [f"h{number}"], INCARNATION)
    assert lowest == conductor.agents.lowest_versions()


def test_a_heartbeat_tells_what_a_registration_did_not_keep(conductor: Conductor) -> None:
    """An older conductor has not stored the version; a heartbeat stores it. One without a version changes nothing."""
    conductor.add_host("h1")
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION, "1.1", "9"))
    conductor.agents.report_state(Heartbeat("fleet-compute", ["h1"], INCARNATION))
    (service,) = conductor.operator.list_services()
    assert ("1.1", "9") == (service["rpc_version"], service["release"])
