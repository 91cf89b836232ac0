# SPDX-License-Identifier: Apache-2.0
"""What ``fleet doctor`` says of promises to survive a loss."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.doctor import filter_examination

PROVED = {"safe": 9, "unsafe": 0, "not proved": 0, "unprotected guests": 0}


def found(promises: Any) -> list[tuple[str, int, str]]:
    examined = filter_examination.examine(lambda: {"left_out": [], "promises": promises})
    return [(each.check, each.level, each.found) for each in examined if each.check == "promises"]


@pytest.mark.parametrize(
    ("proved", "bad", "said"),
    [
        pytest.param(PROVED, False, "the fleet survives each of the 9 losses that it promises to", id="all are safe"),
        pytest.param(
            {**PROVED, "unsafe": 2, "unprotected guests": 5},
            True,
            "of the losses that the fleet promises to survive, 2 are unsafe and 0 not proved; 5 guests have no place then",
            id="some are unsafe",
        ),
        pytest.param(
            {**PROVED, "not proved": 1},
            True,
            "of the losses that the fleet promises to survive, 0 are unsafe and 1 not proved",
            id="one is not proved",
        ),
    ],
)
def test_promises(proved: dict[str, int], bad: bool, said: str) -> None:
    ((check, level, text),) = found(proved)
    assert ("promises", bad, said) == (check, bool(level), text)


@pytest.mark.parametrize(("age", "levels"), [(0, [0]), (300, [0]), (301, [1, 0])])
def test_a_proof_that_is_missing_or_old(age: int, levels: list[int]) -> None:
    said = found({**PROVED, "age": age})
    assert levels == [int(bool(level)) for _check, level, _text in said]
    assert (f"what the fleet promises to survive was not proved for {age} s" in said[0][2]) is (age > 300)


def test_nothing_is_promised_or_the_scheduler_is_older() -> None:
    assert [] == found(None)
    assert ["filters"] == [each.check for each in filter_examination.examine(lambda: {"left_out": []})]
