# SPDX-License-Identifier: Apache-2.0
"""``fleet server volume``: what is sent, what is waited for, what is printed, and the exit status."""

from __future__ import annotations

from typing import Any

import pytest

from fleet_cli.servers import servers
from tests.unit.cli.test_volumes import VOLUME, Volumes

ATTACHED = {"volume": VOLUME["uuid"], "volume_name": "data", "instance_name": "web", "size_gb": 10, "device": "vdb"}
IN_USE = {**VOLUME, "status": "in-use", "attachments": [ATTACHED]}
REFUSED = {"failure": {"error": "failed", "message": "the host does not reach it"}}


@pytest.mark.parametrize(
    ("command", "last", "status", "said"),
    [
        pytest.param("attach", IN_USE, 0, "", id="it is attached"),
        pytest.param("attach", {**VOLUME, **REFUSED}, 1, "is available: the host does not reach it", id="it is not"),
        pytest.param("detach", VOLUME, 0, "", id="it is detached"),
        pytest.param("detach", {**IN_USE, **REFUSED}, 1, "is in-use: the host", id="its guest keeps it"),
    ],
)
def test_the_end_is_waited_for(run, command: str, last: dict[str, Any], status: int, said: str) -> None:
    conductor = Volumes([{**VOLUME, "status": f"{command}ing"}], [last])
    conductor.answers[f"{command}_volume"] = ATTACHED
    found, _out, errors = run(conductor, "server", "volume", command, "--wait", "web", "data")
    assert (status, True) == (found, said in errors)
    assert (f"{command}_volume", {"name": "web", "volume": "data"}) == conductor.calls[0]


def test_a_device_may_be_named(run) -> None:
    conductor = Volumes()
    conductor.answers["attach_volume"] = ATTACHED
    assert 0 == run(conductor, "server", "volume", "attach", "--device", "/dev/vdc", "web", "data")[0]
    assert [("attach_volume", {"name": "web", "volume": "data", "device": "/dev/vdc"})] == conductor.calls


def test_the_volumes_of_a_server_and_the_servers_of_volumes_are_listed(run) -> None:
    conductor = Volumes([IN_USE])
    conductor.answers["show_instance"] = {"volumes": [{**ATTACHED, "status": "attached"}]}
    found, out, _errors = run(conductor, "server", "volume", "list", "web")
    assert (0, True, True) == (found, "vdb" in out, "attached" in out)
    found, out, _errors = run(conductor, "volume", "list")
    assert (0, True, True) == (found, "web" in out, "in-use" in out)


def test_an_instance_shows_its_volumes() -> None:
    assert {"volumes": "data as vdb (attached)"} == servers.volumes([{**ATTACHED, "status": "attached"}])
    assert {} == servers.volumes([]) == servers.volumes(None)
