# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage shadow report``."""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import pytest

from fleet import errors
from fleet_cli.upkeep.shadow_report import ShadowReport

_REPORT = {
    "since": 1.0,
    "sums": [
        {"kind": "fits", "flavor": "small", "reason": "", "count": 1},
        {"kind": "same", "flavor": "small", "reason": "", "count": 3},
    ],
    "newest": [
        {"server": "s1", "at": 0, "kind": "fits", "flavor": "small", "reason": "", "here": "cmp1", "there": "cmp2"}
    ],
}


def _printed(path: pathlib.Path, differences: bool = False) -> Any:
    words = argparse.Namespace(file=str(path), differences=differences)
    return ShadowReport(None, None).take_action(words)


def test_sums(tmp_path: pathlib.Path) -> None:
    """The most frequent outcome first, with its share."""
    path = tmp_path / "report.json"
    path.write_text(json.dumps(_REPORT))
    columns, rows = _printed(path)
    assert ("outcome", "flavor", "reason", "servers", "share") == columns
    assert [("same", "small", "", 3, "75.0 %"), ("fits", "small", "", 1, "25.0 %")] == rows


def test_differences(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(_REPORT))
    assert [("1970-01-01T00:00:00Z", "s1", "fits", "small", "cmp1", "cmp2", "")] == _printed(path, True)[1]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "does not exist"),
        ("{", "is not the report of a shadow"),
        ("[]", "is not the report of a shadow"),
        ('{"sums": [{}]}', "is not the report of a shadow"),
    ],
)
def test_a_file_that_is_no_report(tmp_path: pathlib.Path, content: str | None, said: str) -> None:
    """Is named, with what is wrong."""
    path = tmp_path / "report.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(errors.InvalidInput, match=said) as refused:
        _printed(path)
    assert "--file" == refused.value.field
