# SPDX-License-Identifier: Apache-2.0
"""What is written as JSON reads back equal; what would not is named where it is parsed."""

from __future__ import annotations

import functools
import json
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fleet import errors, json_codec

#: All that Python's json writes, whether a strict reader takes it or not.
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.sampled_from(
        [2**63, 2**64, 10**320, "\0", "\ud800", "\U0001f600", float("nan"), float("-inf"), "\\u0000"]
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=4), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(ANYTHING)
def test_what_is_accepted_reads_back_equal(value: Any) -> None:
    """And what is refused is not written either."""
    try:
        text = json_codec.dumps(value)
    except errors.InvalidInput:
        with pytest.raises(errors.InvalidInput, match="^field"):
            json_codec.require(value, "field")
        return
    json_codec.require(value, "field")
    assert text.isascii()
    assert value == json_codec.loads(text)


REFUSED = [
    ("a whole number of 321 digits", {"hints": {"free": 10**320}}, "f.hints.free must be a whole number from -2"),
    ("65 bits", [1, 2**64], "f.1 must be a whole number from"),
    ("NaN beside null", {"a": None, "b": [float("nan")]}, "f.b.0 must be a finite number"),
    ("NUL", {"a": "x\0"}, "f.a must not contain a NUL character"),
    ("NUL in a key", {"a": {"x\0": 1}}, "f.a must have no key with a NUL character"),
    ("half a surrogate pair", {"a": "\ud800"}, "f.a must not contain half a surrogate pair"),
    ("a number as key", {"a": {1: 2}}, "f.a has a key that is no text"),
    ("a hundred thousand brackets", functools.reduce(lambda inner, _: [inner], range(100_000), []), "f is nested too"),
    ("65 brackets", functools.reduce(lambda inner, _: [inner], range(65), []), "f is nested too deeply"),
    ("bytes", {"a": b"x"}, "f.a is no JSON value: bytes"),
]


@pytest.mark.parametrize(("what", "value", "why"), REFUSED, ids=[each[0] for each in REFUSED])
def test_the_value_that_cannot_be_stored_is_named(what: str, value: Any, why: str) -> None:
    """By its path, with what is allowed."""
    with pytest.raises(errors.InvalidInput, match=f"{why}"):
        json_codec.require(value, "f")


def test_text_that_looks_like_nul_is_text() -> None:
    """A backslash, a u and four zeros."""
    assert r"\u0000" == json_codec.loads(json_codec.dumps(r"\u0000"))


@pytest.mark.parametrize("text", ['{"a": [1, 1%s]}', '{"a": [1, -1%s]}'])
def test_a_number_of_a_million_digits_is_not_computed(text: str) -> None:
    """Computing it would take longer than any request may."""
    began = time.process_time()
    with pytest.raises(errors.InvalidInput, match="server.a.1 must be a whole number"):
        json_codec.parse(text % ("0" * 1_000_000), "server")
    assert time.process_time() - began < 1


@pytest.mark.parametrize("text", ["", "{", "[1,]", "1" * 3 + "x"])
def test_what_is_no_json_is_no_json(text: str) -> None:
    """Callers say so in their own words."""
    with pytest.raises(ValueError):
        json_codec.parse(text, "server")


def test_a_text_of_brackets_is_refused() -> None:
    """Without running out of stack."""
    with pytest.raises(errors.InvalidInput, match="server is nested too deeply"):
        json_codec.parse("[" * 100_000, "server")


@pytest.mark.parametrize("number", [2**64, -(2**63) - 1, 10**300, 10**320])
def test_a_number_that_a_reader_would_change_is_not_sent(number: int) -> None:
    """It is named. Other values, and keys that are no text, are for the reader to judge."""
    with pytest.raises(errors.InvalidInput, match="request.hints.1 must be a whole number from"):
        json_codec.require_whole_numbers({"request": {"hints": [1, number]}})
    json_codec.require_whole_numbers({"a": [2**64 - 1, -(2**63), 1e300, float("nan"), "9" * 30], "b": {1: True}})


@given(st.integers())
@example(2**64)
@example(-(2**63) - 1)
@example(10**307)
def test_long_numbers_are_found(number: int) -> None:
    """Each that the fast reader changes: before it, digits in texts may be taken for one."""
    text = json.dumps({"a": [number]})
    if json_codec.loads(text) != {"a": [number]} or isinstance(json_codec.loads(text)["a"][0], float):
        assert json_codec.may_have_long_numbers(text)
    assert not json_codec.may_have_long_numbers('{"a": 123456789012345678, "b": "x"}')
