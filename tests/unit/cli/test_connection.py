# SPDX-License-Identifier: Apache-2.0
"""How the command line asks for instances when answers are lost."""

from __future__ import annotations

from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from fleet import errors
from fleet.client import connection

TIMEOUT = oslo_messaging.MessagingTimeout()
OLD = errors.VersionPinned(topic="conductor", method="create", needs="1.2", cap="1.1", pin="auto")
ANSWER = {"reservation_id": "r-1", "instances": []}


class Tasks:
    """Returns the next of ``answers``; ``tokens`` holds the tokens of the calls."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.tokens: list[str | None] = []

    def create(self, context: object, request: dict[str, Any], client_token: str | None = None) -> Any:
        self.tokens.append(client_token)
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def connected(tasks: Tasks) -> connection.Connection:
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.IntOpt("rpc_response_timeout", default=60))
    conf([], default_config_files=[])
    made = connection.Connection(conf)
    made._opened = connection._Opened(None, None, tasks, None, None)  # type: ignore[arg-type]
    made._served.add("conductor")
    return made


def test_an_answer_is_all_that_is_wanted() -> None:
    """The user's token goes along."""
    tasks = Tasks(ANSWER)
    assert ANSWER == connected(tasks).create({}, "mine")
    assert ["mine"] == tasks.tokens


def test_a_lost_answer_is_asked_for_again_under_the_same_token() -> None:
    """One that was made for the occasion."""
    tasks = Tasks(TIMEOUT, ANSWER)
    assert ANSWER == connected(tasks).create({})
    first, second = tasks.tokens
    assert first
    assert first == second


def test_who_gives_up_says_how_to_go_on() -> None:
    """With the token, so that nothing is built twice."""
    tasks = Tasks(TIMEOUT, TIMEOUT)
    with pytest.raises(connection.CommandFailed, match="repeated with --client-token") as failed:
        connected(tasks).create({})
    assert str(tasks.tokens[0]) in str(failed.value)


def test_a_conductor_that_knows_no_tokens_is_asked_once() -> None:
    """Without one, and without repeating."""
    tasks = Tasks(OLD, TIMEOUT)
    with pytest.raises(oslo_messaging.MessagingTimeout):
        connected(tasks).create({})
    assert [None] == tasks.tokens[1:]


def test_a_token_that_cannot_be_sent_is_the_users_to_know() -> None:
    """Who names one relies on it."""
    with pytest.raises(errors.VersionPinned):
        connected(Tasks(OLD)).create({}, "mine")
