# SPDX-License-Identifier: Apache-2.0
"""What the daemons log: objects with ``use_json``, and nothing twice."""

from __future__ import annotations

import json
import logging
import pathlib
import subprocess
import sys

import pytest

from fleet.db.engine import Database
from tests.functional.conductor import Conductor

#: A daemon's way to its first line about a build. A process of its own: logging is set up once for all.
_PROGRAM = """
import sys
from oslo_config import cfg
from oslo_log import log
from fleet import conf, context
conf.load_config(sys.argv[1:], "fleet-compute", conf=cfg.ConfigOpts())
asked = context.new_context(project_id="tenant", user_id="user")
asked.about(instance_uuid="u-1", attempt=2, host="h1")
log.getLogger("compute_agent.build").info("Instance is active on node %s", "n1")
print(asked.request_id)
"""


def test_a_line_is_an_object_with_its_build(tmp_path: pathlib.Path) -> None:
    """Request id, project, instance, attempt and host are fields."""
    config = tmp_path / "fleet.conf"
    config.write_text("[DEFAULT]\nuse_json = true\n")
    command = [sys.executable, "-c", _PROGRAM, "--config-file", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    (said,) = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert ("Instance is active on node n1", "INFO", "compute_agent.build") == (
        said["message"],
        said["levelname"],
        said["name"],
    )
    expected = {
        "request_id": ran.stdout.splitlines()[-1],
        "project_id": "tenant",
        "instance_uuid": "u-1",
        "attempt": 2,
        "build_host": "h1",
    }
    assert expected == {name: said["context"][name] for name in expected}


def test_a_success_that_is_told_twice_is_said_once(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """An agent that has lost the answer asks again; the line has what operators look for."""
    conductor = Conductor(database)
    conductor.add_host("h1")
    uuid = conductor.place("h1", name="web")
    conductor.claim(uuid, "h1")
    conductor.clock.advance(2)
    with caplog.at_level(logging.INFO):
        conductor.finish(uuid, "h1")
        conductor.clock.advance(1)
        conductor.finish(uuid, "h1")
    (line,) = [record.getMessage() for record in caplog.records if "ACTIVE" in record.getMessage()]
    reservation_id = conductor.operator.show_instance(uuid)["instance"]["reservation_id"]
    said = f"Instance is ACTIVE on node h1, 2.00 s after it was accepted in {reservation_id}: name web,"
    assert f"{said} flavor (inline), project tenant" == line
