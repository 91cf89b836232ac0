# SPDX-License-Identifier: Apache-2.0
"""The messages of each release, sent to today's program over that release's ledger: it answers as the release did."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping

import pytest

from fleet.db.engine.database import Database
from fleet.db.schema import migration
from tests.configuration import of_database
from tests.hostile import world
from tests.hostile.world import HostileWorld
from tests.upgrade import recording, release
from tests.upgrade.release import Message

#: By release and method: the answer of today where it is another one, on purpose. Say why beside each.
CHANGED: Mapping[tuple[str, str], str] = {}
SENT = [(version, each) for version in release.releases() for each in release.messages(version)]


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, HostileWorld]]:
    """Today's program over the upgraded ledger of each release."""
    made: dict[str, HostileWorld] = {}
    with contextlib.ExitStack() as stack:
        for version in release.releases():
            directory = tmp_path_factory.mktemp("release")
            _upgrade(directory, version)
            made[version] = stack.enter_context(world.opened(directory))
        yield made


def _upgrade(directory: pathlib.Path, version: str) -> None:
    kept = release.ledger(version)
    with Database(of_database(f"sqlite:///{directory}/fleet.db")).disposed() as database:
        migration.sync(database, kept.revision)
        with database.engine.begin() as connection:
            kept.fill(connection)
        migration.sync(database)


@pytest.mark.parametrize(
    ("version", "asked"), SENT, ids=[f"{version}-{each.topic}-{each.method}" for version, each in SENT]
)
def test_it_is_answered_as_before(worlds: dict[str, HostileWorld], version: str, asked: Message) -> None:
    """A method keeps its name, its arguments and the kind of its answer."""
    expected = CHANGED.get((version, asked.method), asked.outcome)
    assert expected == recording.outcome_of(worlds[version], asked)
