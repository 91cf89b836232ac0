# SPDX-License-Identifier: Apache-2.0
"""Tests of ``--hosts``."""

from __future__ import annotations

import pathlib

import pytest

from fleet import errors
from fleet.agent import host_names


@pytest.mark.parametrize(
    ("elements", "expected"),
    [
        pytest.param(["a"], ["a"], id="a name"),
        pytest.param(["b", "a.example.org"], ["b", "a.example.org"], id="names, in their order"),
        pytest.param(["host[008-011]"], ["host008", "host009", "host010", "host011"], id="a range keeps its width"),
        pytest.param(["r[1-2].lab", "x"], ["r1.lab", "r2.lab", "x"], id="a range with a tail"),
        pytest.param(["h[9-10]"], ["h9", "h10"], id="a range that outgrows its width"),
    ],
)
def test_expand(elements: list[str], expected: list[str]) -> None:
    """Names and ranges become names."""
    assert expected == host_names.expand(elements)


@pytest.mark.parametrize(
    ("elements", "reason"),
    [
        pytest.param(["a", "b", "a"], "names hosts twice: a", id="twice"),
        pytest.param(["h[5-1]"], "has 'h[5-1]', which runs backwards", id="backwards"),
        pytest.param(["h[1-99999999]"], "has 'h[1-99999999]', which is longer than 10000", id="endless"),
        pytest.param(["h[a-b]"], "has 'h[a-b]', which is not NAME, NAME[FIRST-LAST] or @FILE", id="no numbers"),
        pytest.param([""], "has the name '', which must have at least 1 character", id="empty"),
        pytest.param(["@/does/not/exist"], "names /does/not/exist, which cannot be read", id="no such file"),
    ],
)
def test_expand_refuses(elements: list[str], reason: str) -> None:
    """The error names the option and what is wrong."""
    with pytest.raises(errors.ConfigError) as wrong:
        host_names.expand(elements)
    assert "hosts" == wrong.value.option
    assert wrong.value.reason.startswith(reason)


def test_a_file_has_one_element_a_line(tmp_path: pathlib.Path) -> None:
    """Comments and empty lines are skipped; ranges work in files too."""
    file = tmp_path / "hosts"
    file.write_text("# rack 1\nh[1-2]\n\n  other  \n")
    assert ["h1", "h2", "other", "last"] == host_names.expand([f"@{file}", "last"])
