# SPDX-License-Identifier: Apache-2.0
"""Deferred work runs after the answer, in the same thread, and its failure harms no other work."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from oslo_context import context as oslo_context

from fleet.context import new_context
from fleet.rpc.deferred import after_reply, replying


def broken() -> None:
    raise RuntimeError("a bug")


def test_where_no_call_is_answered_nothing_waits() -> None:
    """A periodic task, or a test, has no answer to wait for."""
    done: list[str] = []
    after_reply(lambda: done.append("now"))
    assert ["now"] == done


def test_it_follows_the_answer_in_its_order() -> None:
    """And is over with the message: the next one begins with nothing."""
    done: list[str] = []
    for _message in range(2):
        with replying():
            after_reply(lambda: done.append("first"))
            after_reply(lambda: done.append("second"))
            done.append("answered")
    assert ["answered", "first", "second"] * 2 == done


def test_it_is_done_also_where_the_answer_could_not_be_given() -> None:
    """What was decided was decided."""
    done: list[str] = []

    def handle() -> None:
        with replying():
            after_reply(lambda: done.append("done"))
            broken()

    with pytest.raises(RuntimeError):
        handle()
    assert ["done"] == done


def test_one_that_fails_is_logged_and_does_not_keep_the_others(caplog: Any) -> None:
    """No caller is left that could receive the error."""
    done: list[str] = []
    with replying():
        after_reply(broken)
        after_reply(lambda: done.append("done"))
    assert ["done"] == done
    (record,) = caplog.records
    assert ("ERROR", RuntimeError) == (record.levelname, record.exc_info[0])


def test_a_thread_does_its_own_only() -> None:
    """Another one's message may be answered much later."""
    done: list[str] = []
    with replying():
        other = threading.Thread(target=lambda: after_reply(lambda: done.append("theirs")))
        other.start()
        other.join()
        after_reply(lambda: done.append("mine"))
        assert ["theirs"] == done
    assert ["theirs", "mine"] == done


def test_its_context_is_that_of_the_call() -> None:
    """Whatever context the work before it made: its log lines have the id of the request."""
    seen: list[str] = []

    def tell_the_neighbours() -> None:
        new_context()

    with replying():
        asked = new_context().request_id
        after_reply(tell_the_neighbours)
        after_reply(lambda: seen.append(oslo_context.get_current().request_id))
        new_context()
    assert [asked] == seen
