# SPDX-License-Identifier: Apache-2.0
"""Spawns that the drivers' journals show twice."""

from __future__ import annotations

import pathlib

import pytest

from tests.invariants import drivers

MOVE = "00000000-0000-0000-0000-00000000000a"
BUILT, GONE = "spawn u1 1 -", f"destroy u1 1 {MOVE}"
MOVED, MOVED_AGAIN = f"spawn u1 1 {MOVE}", f"spawn u1 2 {MOVE}"


def journals(directory: pathlib.Path, **lines: list[str]) -> pathlib.Path:
    """By host."""
    (directory / drivers.JOURNAL).mkdir()
    for host, said in lines.items():
        (directory / drivers.JOURNAL / host).write_text("".join(f"{line}\n" for line in said))
    return directory


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param({"a1": [BUILT], "b1": [MOVED]}, id="built, then evacuated"),
        pytest.param({"a1": [BUILT], "b1": [MOVED], "b2": [MOVED_AGAIN]}, id="the move's second attempt"),
        pytest.param({"b1": [MOVED, GONE, MOVED]}, id="again, when its host has destroyed what was there"),
        pytest.param({"b1": [MOVED, "spawn u1"]}, id="a line that is being written"),
    ],
)
def test_spawns_that_may_be(tmp_path: pathlib.Path, lines: dict[str, list[str]]) -> None:
    """A build and each of its moves count their attempts for themselves."""
    assert [] == list(drivers.no_spawn_is_repeated(journals(tmp_path, **lines)))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param(
            {"a1": [BUILT], "a2": [BUILT]}, "u1 was spawned 2 times at attempt 1: on a1, a2", id="on two hosts"
        ),
        pytest.param(
            {"a1": [BUILT, "destroy u1 1 -", BUILT]},
            "u1 was spawned 2 times at attempt 1: on a1, a1",
            id="a build's attempt, though destroyed between: it must have been handed back",
        ),
        pytest.param(
            {"b1": [MOVED, MOVED]},
            f"u1 was spawned 2 times at attempt 1 of migration {MOVE}: on b1, b1",
            id="nothing was destroyed between",
        ),
        pytest.param(
            {"b1": [MOVED, GONE], "b2": [MOVED]},
            f"u1 was spawned 2 times at attempt 1 of migration {MOVE}: on b1, b2",
            id="a move's attempt has one host",
        ),
    ],
)
def test_spawns_that_are_one_too_many(tmp_path: pathlib.Path, lines: dict[str, list[str]], expected: str) -> None:
    """The sentence names the instance, the attempt and the hosts."""
    assert [expected] == list(drivers.no_spawn_is_repeated(journals(tmp_path, **lines)))
