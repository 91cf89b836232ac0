# SPDX-License-Identifier: Apache-2.0
"""The size and the depth of messages, also of such as the fast writer of JSON refuses."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from fleet.rpc.trust import message_size


@pytest.mark.parametrize(
    "value",
    [{"number": 10**400}, {"text": "\ud800"}, {1: None}, {"é": [1.5, True]}, {"at": datetime.datetime(2026, 1, 1)}],
    ids=["beyond 64 bits", "half of a surrogate pair", "a key that is no text", "not ASCII", "a moment"],
)
def test_a_message_is_as_long_as_its_json(value: Any) -> None:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    assert len(written) == len(message_size.text_of(value, 8))


@pytest.mark.parametrize("levels", [9, 300, 5000])
def test_a_message_that_is_nested_too_deeply(levels: int) -> None:
    value: list[Any] = []
    for _level in range(levels):
        value = [value]
    with pytest.raises(message_size.TooDeep):
        message_size.text_of(value, 8)
