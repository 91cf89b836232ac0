# SPDX-License-Identifier: Apache-2.0
"""Daemons of two releases work together while they are upgraded one by one: no build is lost, nothing is misread."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from fleet import errors
from fleet.rpc import versions
from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, eventually, running
from tests.amqp.invariants import come_to_rest, violations
from tests.amqp.launcher import OLD
from tests.shared_servers import create_database

PROGRAMS = {"conductor": "fleet-conductor", "scheduler": "fleet-scheduler", "compute": "fleet-compute"}
#: Services with the age of each daemon of theirs.
SKEWS = [
    ("an old conductor", {"conductor": ["old"], "scheduler": ["new"], "compute": ["new", "new"]}),
    ("a new conductor", {"conductor": ["new"], "scheduler": ["old"], "compute": ["old", "old"]}),
    ("an old scheduler", {"conductor": ["new"], "scheduler": ["old"], "compute": ["new", "new"]}),
    ("one agent of each", {"conductor": ["new"], "scheduler": ["new"], "compute": ["old", "new"]}),
    ("a conductor of each", {"conductor": ["old", "new"], "scheduler": ["new"], "compute": ["new", "old"]}),
]
BUILDS = 8
AT_A_TIME = 12


@pytest.fixture
def stand(
    request: pytest.FixtureRequest, tmp_path: pathlib.Path, postgresql_url: str, broker: RabbitMQ
) -> Iterator[Trio]:
    """A broker and a database without any daemon."""
    name = f"skew_{abs(hash(request.node.name))}"
    url = create_database(postgresql_url, name)
    with running(Trio(tmp_path, broker.vhost(name), url)) as trio:
        trio.manage("db", "sync")
        yield trio


def start(trio: Trio, service: str, age: str, number: int = 0) -> str:
    """The daemon's name."""
    name = f"{service}-{number}"
    command = [OLD, service] if age == "old" else []
    arguments = ["--hosts", f"{'ab'[number]}[1-2]"] if service == "compute" else []
    host = trio.directory / f"{name}.conf"
    host.write_text(f"[DEFAULT]\nhost = {name}\n")
    trio.start(name, PROGRAMS[service], "--config-file", str(host), *arguments, command=command)
    return name


@pytest.mark.parametrize(
    ("what", "ages"),
    # The last one has both releases of each service but the scheduler.
    [pytest.param(*case, id=case[0], marks=() if case is SKEWS[-1] else pytest.mark.long) for case in SKEWS],
)
def test_two_releases_build_together(stand: Trio, what: str, ages: dict[str, list[str]]) -> None:
    """Every build becomes ACTIVE on every host; no log has a traceback or a message that was sent too new."""
    names = [start(stand, service, age, number) for service, each in ages.items() for number, age in enumerate(each)]
    stand.wait_for_hosts(4)
    stand.wait_for_service("fleet-scheduler")
    uuids = [uuid for number in range(BUILDS) for uuid in stand.boot(name=f"b{number}")]
    # What comes up at the same time is asked together, where all can read it.
    uuids += stand.boot(name="many", count=AT_A_TIME)
    assert {"active"} == set(stand.wait_for(uuids, "active", "error").values())
    assert 4 == len({stand.show(uuid)["instance"]["host"] for uuid in uuids})
    if ages["scheduler"] == ["new"]:
        come_to_rest(stand)
    else:
        with pytest.raises(errors.VersionPinned, match="capacity needs version 4.2"):
            violations(stand)
    logs = {name: stand.log(name) for name in names}
    assert [] == [name for name, log in logs.items() if "Traceback" in log or "came with a later release" in log]


@pytest.mark.long
def test_what_is_sent_follows_an_upgrade(stand: Trio) -> None:
    """When the last agent of the former release has gone, orders are sent in the new version; and back."""
    for service in ("conductor", "scheduler"):
        start(stand, service, "new")
    agent = ""
    for age, version in (("old", "1.0"), ("new", versions.CURRENT["compute"]), ("old", "1.0")):
        line = f"Version {version} is sent to the compute from now on"
        times = stand.log("conductor-0").count(line)
        if agent:
            # An agent that stops in good order disables its hosts, and one of the release before cannot undo that.
            stand.kill(agent)
        agent = start(stand, "compute", age)
        eventually(lambda line=line, times=times: stand.log("conductor-0").count(line) > times)
        stand.wait_for_hosts(2)
        uuids = stand.boot(name=f"with-{version}", count=2)
        assert {"active"} == set(stand.wait_for(uuids, "active", "error").values())
