# SPDX-License-Identifier: Apache-2.0
"""Two agents with one host name: the second does not start, on the same machine or another."""

from __future__ import annotations

import subprocess

import pytest

from tests.amqp.daemons import Trio, environment, script
from tests.amqp.invariants import come_to_rest

WHERE = [("on the same machine", "instances"), ("on another machine", "instances-elsewhere")]


@pytest.mark.parametrize(("where", "directory"), WHERE, ids=[case[0] for case in WHERE])
def test_a_second_agent_refuses_to_start(trio: Trio, where: str, directory: str) -> None:
    """It names the process that serves the host and ends with status 1; the first agent continues."""
    file = trio.directory / f"{directory}.conf"
    file.write_text(trio.config_file.read_text().replace(str(trio.instances_path), str(trio.directory / directory)))
    command = [script("fleet-compute"), "--config-file", str(file), "--hosts", "new1,a2"]
    second = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment())
    assert 1 == second.returncode
    assert "fleet-compute: Host a2 is served by another agent: pid " in second.stderr
    (uuid,) = trio.boot(availability_zone="nova:a2")
    assert "active" == trio.wait_for([uuid], "active", "error")[uuid]
    assert "new1" not in {service["host"] for service in trio.operator("list_services")}
    come_to_rest(trio)
