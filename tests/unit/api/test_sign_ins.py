# SPDX-License-Identifier: Apache-2.0
"""Names cannot be told from the time of an answer, guesses are logged and slowed down, and streams lose their right."""

from __future__ import annotations

import base64
import logging
import pathlib
import threading
from collections.abc import Callable
from typing import Any

import bcrypt
import pytest
from falcon import testing

from fleet_api import conf as api_conf
from fleet_api.access import attempts, users
from fleet_api.access.attempts import Attempts
from fleet_api.application import application
from fleet_api.own import events
from tests.configuration import configuration
from tests.unit.api.test_events import PATH, NewsConductor, answer
from tests.unit.api.test_identity import hashed_password, htpasswd


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds of each comparison: 2 to the power of the cost of the hash."""
    done: list[int] = []
    check = bcrypt.checkpw

    def counted(password: bytes, crypted: bytes) -> bool:
        done.append(2 ** int(crypted[4:6]))
        return check(password, crypted) if crypted[4:6] == b"10" else False

    monkeypatch.setattr(bcrypt, "checkpw", counted)
    return done


@pytest.mark.parametrize("cost", [10, 11, 13])
def test_every_guess_takes_the_same_rounds(rounds: list[int], cost: int) -> None:
    """For each cost of the user's hash, and for a user who does not exist."""
    crypted = hashed_password("one").replace("$10$", f"${cost}$").encode()
    assert not users.is_password(b"wrong", crypted, 13)
    of_user = sum(rounds)
    rounds.clear()
    assert not users.is_password(b"wrong", None, 13)
    assert (2**13, 2**13) == (of_user, sum(rounds))


def test_no_password_is_that_of_nobody() -> None:
    """The hash that stands for an unknown user belongs to no password that clients send."""
    assert [False] * 3 == [bcrypt.checkpw(word, users._nobody(10)) for word in (b"", b"nobody", b"." * 53)]


def test_guesses_have_to_wait() -> None:
    """Twice as long after each failure, up to a minute; other names and addresses do not wait."""
    now = [0.0]
    found = Attempts(lambda: now[0])
    waits = []
    for _guess in range(14):
        waits.append(found.wait_s("alice", "a1"))
        now[0] += waits[-1]
        found.failed("alice", "a1")
    assert [0.0] * 5 + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0] == waits
    assert [0.0, 0.0] == [found.wait_s("bob", "a1"), found.wait_s("alice", "a2")]
    found.succeeded("alice", "a1")
    assert found.wait_s("alice", "a1") == 0.0


def test_an_address_that_guesses_names_has_to_wait() -> None:
    """Except for the names that have signed in from it before."""
    now = [0.0]
    found = Attempts(lambda: now[0])
    found.succeeded("alice", "a1")
    for number in range(attempts.FREE_OF_ADDRESS):
        found.failed(f"name-{number}", "a1")
    assert [1.0, 0.0, 0.0] == [found.wait_s(*each) for each in (("bob", "a1"), ("alice", "a1"), ("bob", "a2"))]


class Door:
    """The application with users alice, bob and root."""

    def __init__(self, directory: pathlib.Path, streams: events.Streams | None = None) -> None:
        self.passwords = htpasswd(directory / "htpasswd", alice="one", bob="two", root="three")
        (directory / "projects").write_text("[root]\nroles = admin\n")
        self.conductor = NewsConductor()
        self.conductor.news = [answer()]
        self.conductor.answers["list_flavors"] = []
        conf = configuration(api_conf.register_opts)
        conf.set_override("auth_strategy", "http_basic", "api")
        conf.set_override("basic_auth_file", str(self.passwords), "api")
        conf.set_override("projects_file", str(directory / "projects"), "api")
        self.client = testing.TestClient(application(self.conductor, conf, streams))

    def get(self, path: str, name: str, password: str, address: str = "10.0.0.1") -> testing.Result:
        token = base64.b64encode(f"{name}:{password}".encode()).decode()
        return self.client.simulate_get(path, headers={"Authorization": f"Basic {token}"}, remote_addr=address)


def test_a_guesser_is_refused_and_logged(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    """With the seconds to wait; the right password does not help meanwhile. Others sign in as always."""
    door = Door(tmp_path)
    with caplog.at_level(logging.WARNING):
        codes = [door.get("/v2.1/flavors", "alice", f"guess-{number}").status_code for number in range(7)]
    assert [401] * 5 + [429] * 2 == codes
    assert 5 == len([each for each in caplog.messages if "The sign-in of user alice from 10.0.0.1 has failed" in each])
    refused = door.get("/v2.1/flavors", "alice", "one")
    assert (429, True) == (refused.status_code, int(refused.headers["Retry-After"]) >= 1)
    assert "Too many sign-ins have failed" in refused.json["overLimit"]["message"]
    assert 429 != door.get("/v2.1/flavors", "alice", "one", "10.0.0.2").status_code
    assert 429 != door.get("/v2.1/flavors", "bob", "two").status_code


def test_a_user_who_has_signed_in_is_not_held_up(tmp_path: pathlib.Path) -> None:
    """A password that was right a short while ago is not compared, whoever guesses meanwhile."""
    door = Door(tmp_path)
    assert 401 != door.get("/v2.1/flavors", "alice", "one").status_code
    for number in range(8):
        door.get("/v2.1/flavors", "alice", f"guess-{number}")
    assert door.get("/v2.1/flavors", "alice", "one").status_code not in (401, 429)


def test_too_many_comparisons_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that finds no place does not wait for ever."""
    monkeypatch.setattr(users, "_WAIT_S", 0.01)
    held, release = threading.Event(), threading.Event()

    def hold(_password: bytes, _crypted: bytes) -> bool:
        held.set()
        return not release.wait(30)

    known = users.Users(htpasswd(tmp_path / "htpasswd", alice="one"), None, threads=3)
    monkeypatch.setattr(bcrypt, "checkpw", hold)
    first = threading.Thread(target=known.authenticate, args=("alice", b"x"))
    first.start()
    assert held.wait(30)
    with pytest.raises(users.Busy):
        known.authenticate("bob", b"y")
    release.set()
    first.join(30)


class Counting(events.Streams):
    """Ends a stream after ten looks."""

    paused = 0

    def pause(self) -> bool:
        self.paused += 1
        return self.paused < 10


@pytest.mark.parametrize("lost", ["password", "user", "role"])
def test_a_stream_ends_with_its_users_right(
    tmp_path: pathlib.Path, lost: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The sender is authorised again each minute: a changed password, a removed user and a lost role count."""
    monkeypatch.setattr(events, "_AUTHORISE_EVERY", 3)
    ended: dict[str, Callable[[], Any]] = {
        "password": lambda: htpasswd(door.passwords, alice="new", root="three"),
        "user": lambda: htpasswd(door.passwords, bob="two", root="three"),
        "role": lambda: (tmp_path / "projects").write_text("[alice]\nproject = other\n"),
    }

    class Losing(Counting):
        def pause(self) -> bool:
            if self.paused == 1:
                ended[lost]()
            return super().pause()

    streams = Losing(most=2)
    door = Door(tmp_path, streams)
    with caplog.at_level(logging.INFO):
        assert 200 == door.get(PATH, "alice", "one").status_code
    assert 3 == streams.paused
    assert "A stream of events ends" in caplog.text


def test_a_stream_goes_on_while_its_user_may(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing changes for a user whose right stays."""
    monkeypatch.setattr(events, "_AUTHORISE_EVERY", 3)
    streams = Counting(most=2)
    assert 200 == Door(tmp_path, streams).get(PATH, "alice", "one").status_code
    assert 10 == streams.paused
