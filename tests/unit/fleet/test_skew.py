# SPDX-License-Identifier: Apache-2.0
"""A wrong clock is logged once, until it is right again."""

from __future__ import annotations

import logging

import pytest

from fleet import errors
from fleet.clock.skew import ClockSkew

MEASURED = [
    ("exact", 0.0, 0.0, True),
    ("within bounds", -4.9, 0.0, True),
    ("may be within bounds: the answer took long", 9.0, 4.5, True),
    ("ahead", 5.1, 0.0, False),
    ("an hour behind", -3600.0, 1.0, False),
]


@pytest.mark.parametrize(("what", "offset_s", "uncertain_s", "good"), MEASURED, ids=[case[0] for case in MEASURED])
def test_which_clocks_are_off(what: str, offset_s: float, uncertain_s: float, good: bool) -> None:
    skew = ClockSkew(5.0)
    skew.note(offset_s, uncertain_s)
    assert good == (not skew.problem)
    assert (0.0 if good else round(offset_s)) == skew.reported_s


def test_one_line_when_it_is_off_and_one_when_it_is_right(caplog: pytest.LogCaptureFixture) -> None:
    """Meanwhile its probe fails, which makes the daemon not ready."""
    caplog.set_level(logging.INFO)
    skew = ClockSkew(5.0)
    for offset_s in (3600.0, 3601.0):
        skew.note(offset_s)
        with pytest.raises(errors.ClockSkewed, match="ahead of the database's, max_clock_skew is 5 s"):
            skew.require_in_step()
    for offset_s in (0.1, 0.0):
        skew.note(offset_s)
        skew.require_in_step()
    assert [logging.ERROR, logging.INFO] == [record.levelno for record in caplog.records]


def test_the_check_can_be_turned_off() -> None:
    skew = ClockSkew(0)
    skew.note(3600.0)
    skew.require_in_step()
