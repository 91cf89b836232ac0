# SPDX-License-Identifier: Apache-2.0
"""Remote methods check their arguments and answer refusals without a traceback."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from oslo_messaging.rpc import dispatcher

from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.objects import fields
from fleet.rpc.endpoint import endpoint, require_size


class Manager:
    @endpoint
    def double(self, context: RequestContext, number: fields.Natural) -> int:
        if number == 13:
            raise errors.NotFound(kind="Number", name="13")
        if number == 666:
            raise RuntimeError("a bug")
        return 2 * number

    @endpoint
    def anything(self, context: RequestContext, asked: Any, more: Any = None) -> Any:
        return [asked, more]


def refusal(**arguments: object) -> errors.FleetError:
    with pytest.raises(dispatcher.ExpectedException) as caught:
        Manager().double(new_context(), **arguments)
    _class, error, traceback = caught.value.exc_info
    assert traceback is None
    return error


def test_a_good_call_is_answered() -> None:
    """Unknown arguments are ignored, as a newer client may send them."""
    assert Manager().double(new_context(), number=4, tomorrow=True) == 8


@pytest.mark.parametrize("bad", [{"number": -1}, {"number": "4"}, {"number": None}, {}], ids=str)
def test_a_bad_argument_is_named(bad: dict[str, object]) -> None:
    """A wrong or missing argument is InvalidInput with its name."""
    error = refusal(**bad)
    assert isinstance(error, errors.InvalidInput)
    assert error.field == "number"


def test_an_argument_of_any_kind_may_be_none_but_must_be_there() -> None:
    """Unknown ones are ignored here, too."""
    assert [None, None] == Manager().anything(new_context(), asked=None, tomorrow=True)
    with pytest.raises(dispatcher.ExpectedException) as caught:
        Manager().anything(new_context(), more=1)
    error = caught.value.exc_info[1]
    assert (errors.InvalidInput, "asked") == (type(error), error.field)


def test_a_refusal_has_no_traceback() -> None:
    """An error of ours is an expected answer."""
    assert isinstance(refusal(number=13), errors.NotFound)


def test_a_bug_stays_a_bug() -> None:
    """Anything else goes to the log with its traceback."""
    with pytest.raises(RuntimeError):
        Manager().double(new_context(), number=666)


LARGE = [
    ("fifty lists in one another", functools.reduce(lambda inner, _: [inner], range(50), []), "nested too deeply"),
    ("a number that is none", {"hint": float("nan")}, "must be a finite number"),
    ("NUL in a hint", {"hint": ["a\x00b"]}, "NUL"),
    ("a mebibyte of text", {"hint": "x" * 2**20}, "is 1048"),
    (
        "a hundred thousand brackets",
        functools.reduce(lambda inner, _: [inner], range(100_000), []),
        "nested too deeply",
    ),
]


def test_brackets_in_a_text_are_no_depth() -> None:
    """Nor are many lists beside one another."""
    require_size({"hint": "[" * 1000, "more": [[]] * 1000}, "request")


@pytest.mark.parametrize(("what", "request_", "reason"), LARGE, ids=[case[0] for case in LARGE])
def test_an_absurd_request_is_refused_before_it_is_looked_into(what: str, request_: object, reason: str) -> None:
    """Size and depth are limited; the error names the request and shows no part of it."""
    with pytest.raises(errors.InvalidInput) as caught:
        require_size(request_, "request")
    assert caught.value.field.startswith("request")
    assert reason in caught.value.message
    assert len(caught.value.message) < 200
