# SPDX-License-Identifier: Apache-2.0
"""What the daemons log: objects with ``use_json``, and nothing twice."""

from __future__ import annotations

import json
import logging
import pathlib
import subprocess
import sys

import pytest
from oslo_context import context as oslo_context

from conductor_stub.steps.attempt import Attempt, Failure
from fleet.db.engine.database import Database
from fleet.objects import Place
from tests.worlds.conductor import Conductor, context

#: A daemon's way to its first line about a build. A process of its own: logging is set up once for all.
_PROGRAM = """
import sys
from oslo_config import cfg
from oslo_log import log
from fleet import conf, context
conf.load_config(sys.argv[1:], "fleet-compute", conf=cfg.ConfigOpts())
asked = context.new_context(project_id="tenant", user_id="user")
asked.about(instance_uuid="u-1", attempt=2, host="h1")
log.getLogger("compute_agent.work.build").info("Instance is active on node %s", "n1")
print(asked.request_id)
"""


def test_a_line_is_an_object_with_its_build(tmp_path: pathlib.Path) -> None:
    """Request id, project, instance, attempt and host are fields."""
    config = tmp_path / "fleet.conf"
    config.write_text("[DEFAULT]\nuse_json = true\n")
    command = [sys.executable, "-c", _PROGRAM, "--config-file", str(config)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    (said,) = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    assert ("Instance is active on node n1", "INFO", "compute_agent.work.build") == (
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
    """An agent repeats a finish whose answer was lost; the log has one line, with all that operators look for."""
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


_RESTART = Failure("agent-restart", "AgentRestarted", "cut off", 0.0)


@pytest.mark.parametrize(
    ("alternates", "said"),
    [
        pytest.param([], "Attempt 1 on host h1 failed in step agent-restart", id="back to the scheduler"),
        pytest.param(
            [Place("h2", "h2", {})], "Attempt 1 on host h1 failed in step agent-restart", id="to an alternate"
        ),
        pytest.param(None, "Build aborted in step agent-restart", id="given up"),
    ],
)
def test_a_build_goes_on_under_its_own_request(
    database: Database, caplog: pytest.LogCaptureFixture, alternates: list[Place] | None, said: str
) -> None:
    """An agent's start or comparison is a request of its own; the build that it hands back keeps its request id."""
    conductor = Conductor(database)
    conductor.add_hosts(["h1", "h2"])
    uuid = conductor.place("h1", name="web")
    conductor.claim(uuid, "h1")
    asked = conductor.operator.show_instance(uuid)["instance"]["request_id"]
    under: list[str] = []

    def note(record: logging.LogRecord) -> bool:
        if said in record.getMessage():
            under.append(oslo_context.get_current().request_id)
        return True

    with caplog.at_level(logging.INFO), caplog.filtering(note):
        if alternates is None:
            conductor.placement.abort(context(), Attempt(uuid, 1, "h1", "h1"), _RESTART)
        else:
            conductor.placement.reschedule(context(), Attempt(uuid, 1, "h1", "h1"), _RESTART, alternates)
    assert [asked] == under
    assert [asked] * len(conductor.tasks.cast) == [each.request_id for each, *_build in conductor.tasks.cast]
    assert asked == conductor.events(uuid)[-1]["request_id"]
