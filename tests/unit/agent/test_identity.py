# SPDX-License-Identifier: Apache-2.0
"""An identity is kept with the host's state, by one process at a time."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import uuid

import pytest

from fleet import errors
from fleet.agent import identity


def test_an_identity_survives_its_process(tmp_path: pathlib.Path) -> None:
    """The next agent of the host is known as its next life; another host, whatever its name, has another identity."""
    first = identity.hold(str(tmp_path), ["h1", "../h2"])
    first.release()
    second = identity.hold(str(tmp_path), ["../h2", "h1"])
    second.release()
    assert {host: (known.uuid, 2) for host, known in first.items()} == dict(second)
    assert (2, {1}) == (len({known.uuid for known in first.values()}), {known.life for known in first.values()})
    assert [tmp_path / identity.DIRECTORY] == list(tmp_path.iterdir())


def test_the_ledger_is_remembered_with_the_host(tmp_path: pathlib.Path) -> None:
    """The next process of the host reads it, also after another registration; a host of another ledger is refused."""
    first = identity.hold(str(tmp_path), ["h1"])
    assert first.ledger() is None
    for _time in range(2):
        first.remember_ledger("one")
    first.release()
    second = identity.hold(str(tmp_path), ["h1"])
    assert ("one", first["h1"].uuid) == (second.ledger(), second["h1"].uuid)
    second.release()
    other = identity.hold(str(tmp_path), ["h2"])
    other.remember_ledger("two")
    other.release()
    both = identity.hold(str(tmp_path), ["h1", "h2"])
    with pytest.raises(errors.ConfigError, match="h1 belongs to ledger one, h2 belongs to ledger two"):
        both.ledger()
    both.release()


def test_one_process_at_a_time(tmp_path: pathlib.Path) -> None:
    """A second process is refused with the pid of the first, and holds none of the hosts that it requested."""
    first = identity.hold(str(tmp_path), ["h1"])
    with pytest.raises(errors.HostTaken) as taken:
        identity.hold(str(tmp_path), ["h0", "h1"])
    assert f"Host h1 is served by another agent: pid {os.getpid()} on " in taken.value.message
    assert first["h1"].uuid in taken.value.message
    identity.hold(str(tmp_path), ["h0"]).release()
    first.release()


def test_the_lives_of_a_file_of_an_older_release_are_counted_from_one(tmp_path: pathlib.Path) -> None:
    """It has no number."""
    file = tmp_path / identity.DIRECTORY / "h1.json"
    file.parent.mkdir()
    known = str(uuid.uuid4())
    file.write_text(json.dumps({"identity": known, "pid": 7}))
    held = identity.hold(str(tmp_path), ["h1"])
    held.release()
    assert identity.Identity(known, 1) == held["h1"]


def test_a_disk_that_is_full_costs_no_identity(tmp_path: pathlib.Path) -> None:
    """An agent with a new one could not serve its host while the conductor still counts the former one as alive."""
    first = identity.hold(str(tmp_path), ["h1"])
    first.remember_ledger("one")
    first.release()
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        with pytest.raises(errors.ConfigError, match="instances_path cannot be written: .*File too large"):
            identity.hold(str(tmp_path), ["h1"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    second = identity.hold(str(tmp_path), ["h1"])
    second.release()
    assert (first["h1"].uuid, 2) == second["h1"]
    third = identity.hold(str(tmp_path), ["h1"])
    assert "one" == third.ledger()
    third.release()


def test_a_shorter_content_leaves_nothing_of_a_longer_one(tmp_path: pathlib.Path) -> None:
    first = identity.hold(str(tmp_path), ["h1"])
    for ledger in ("a name that is long", "short"):
        first.remember_ledger(ledger)
        assert ledger == first.ledger()
    first.release()
    assert "short" == json.loads((tmp_path / identity.DIRECTORY / "h1.json").read_text())["ledger"]


TORN = [("empty", ""), ("cut off", '{"identity": "12'), ("of another shape", "[]"), ("no uuid", '{"identity": "me"}')]


@pytest.mark.parametrize(("how", "content"), TORN, ids=[case[0] for case in TORN])
def test_a_torn_file_is_written_anew(tmp_path: pathlib.Path, how: str, content: str) -> None:
    """A crash while it was written costs the identity, not the host."""
    file = tmp_path / identity.DIRECTORY / "h1.json"
    file.parent.mkdir()
    file.write_text(content)
    held = identity.hold(str(tmp_path), ["h1"])
    held.release()
    assert (4, 1) == (uuid.UUID(held["h1"].uuid).version, held["h1"].life)


def test_a_place_that_cannot_be_written_is_named(tmp_path: pathlib.Path) -> None:
    """The operator learns which option to change."""
    (tmp_path / "file").touch()
    with pytest.raises(errors.ConfigError, match="instances_path cannot be written"):
        identity.hold(str(tmp_path / "file"), ["h1"])
