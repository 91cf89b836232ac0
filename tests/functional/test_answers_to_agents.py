# SPDX-License-Identifier: Apache-2.0
"""An agent reads rows of its own host only, whatever it reports; and a new one takes nothing where messages are signed."""

from __future__ import annotations

import pathlib

import pytest

from conductor_stub import conf as conductor_conf
from conductor_stub import parts
from conductor_stub.agents.api import AgentAPI
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors, move_states
from fleet.db.engine.database import Database
from fleet.rpc.trust import signing
from tests.configuration import configuration
from tests.functional.test_moves import BOOM, Stage
from tests.worlds.conductor import context
from tests.worlds.volumes import Volumes

EVIL, STRANGE = "m9@evil", "evil"


def test_a_backend_reads_no_volume_of_another_backend(database: Database) -> None:
    """Neither as the answer of a report, nor of a failure, nor of a measurement."""
    volumes = Volumes(database)
    uuid = volumes.available(name="secret", metadata={"key": "secret"})
    there, progress = Attempt(uuid, 1, EVIL), volumes.volume_progress
    before = volumes.row(uuid)
    for answer in (
        progress.done(context(), there, "creating"),
        progress.fail(context(), there, "creating", Failure("creating", "OSError", "no")),
        progress.measured(context(), there, 5, 5),
    ):
        assert (uuid, "deleted", "", {}, None) == (
            *(answer.uuid, answer.status, answer.name, answer.metadata, answer.host),
        )
    assert before == volumes.row(uuid)


def test_a_host_reads_no_move_of_other_hosts(database: Database) -> None:
    """A host that was tried learns that it has no part any more, and not which host has."""
    stage = Stage(database)
    stage.resize("h2", "h3")
    uuid = stage.migration()["uuid"]
    for report in (
        lambda: stage.progress.advance(context(), Attempt(uuid, 1, STRANGE), move_states.PRE_MIGRATING),
        lambda: stage.progress.fail(context(), Attempt(uuid, 1, STRANGE), move_states.PREPARING, BOOM),
    ):
        with pytest.raises(errors.NotFound, match=f"on host {STRANGE}"):
            report()
    answer = stage.progress.fail(context(), Attempt(uuid, 1, "h2"), move_states.PREPARING, BOOM)
    assert (None, None, None) == (answer.dest_compute, answer.actor, answer.limits)
    assert "h3" == stage.migration()["dest_compute"]


@pytest.mark.parametrize(
    ("signed", "option", "enabled"),
    [(False, None, True), (True, None, False), (True, True, True), (False, False, False)],
)
def test_a_host_that_was_never_seen(
    database: Database, tmp_path: pathlib.Path, signed: bool, option: bool | None, enabled: bool
) -> None:
    """It waits for the administrator if messages are signed, unless the option says otherwise. Conductors do not wait."""
    keys = tmp_path / "keys"
    keys.write_text(f"conductors service {'s' * 32}\n")
    keys.chmod(0o600)
    conf = configuration(conductor_conf.register_opts, signing.register_opts)
    conf.set_override("keys_file", str(keys) if signed else "", group="message_signing")
    conf.set_override("enable_new_services", option)
    volumes = Volumes(database)
    agents = AgentAPI(database, volumes.limits, parts.enables_new_services(conf), volumes.clock)
    new = [("h9", "fleet-compute", "compute"), (EVIL, "fleet-volume", "volume"), ("c1", "fleet-conductor", "conductor")]
    agents.register_services([{"host": host, "binary": binary, "topic": topic} for host, binary, topic in new])
    status = {each["host"]: each["status"] for each in volumes.operator.list_services()}
    expected = "enabled" if enabled else "disabled"
    assert (expected, expected, "enabled") == (status["h9"], status[EVIL], status["c1"])
