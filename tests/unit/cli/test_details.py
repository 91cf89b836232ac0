# SPDX-License-Identifier: Apache-2.0
"""The calls of ``set`` and ``unset`` of ``fleet server`` and ``fleet volume``, and what ``fleet boot`` sends of them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.cli import fakes


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (["set", "--name", "db", "web"], {"name": "db"}),
        (["set", "--description", "", "web"], {"description": ""}),
        (["set", "--property", "a=1", "--property", "b=", "web"], {"metadata": {"a": "1", "b": ""}}),
        (["set", "--tag", "x", "--tag", "y", "web"], {"add_tags": ["x", "y"]}),
        (["set", "--hostname", "db.example", "web"], {"hostname": "db.example"}),
        (["unset", "--property", "a", "--tag", "x", "web"], {"metadata": {"a": None}, "remove_tags": ["x"]}),
    ],
)
def test_calls(run, line: list[str], changes: dict[str, Any]) -> None:
    conductor = fakes.Conductor()
    status, out, _ = run(conductor, "server", *line)
    assert (0, "", [("update_instance", {"name": "web", "changes": changes})]) == (status, out, conductor.calls)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (["set", "--name", "db", "--description", "mine", "data"], {"name": "db", "description": "mine"}),
        (["set", "--property", "a=1", "data"], {"metadata": {"a": "1"}}),
        (["unset", "--property", "a", "data"], {"metadata": {"a": None}}),
    ],
)
def test_calls_about_volumes(run, line: list[str], changes: dict[str, Any]) -> None:
    conductor = fakes.Conductor()
    status, out, _ = run(conductor, "volume", *line)
    assert (0, "", [("update_volume", {"name": "data", "changes": changes})]) == (status, out, conductor.calls)


@pytest.mark.parametrize("thing", ["server", "volume"])
@pytest.mark.parametrize("word", ["set", "unset"])
def test_nothing_to_change(run, thing: str, word: str) -> None:
    """The message names the command that lists the options."""
    conductor = fakes.Conductor()
    status, _, err = run(conductor, thing, word, "web")
    assert (1, []) == (status, conductor.calls)
    assert f"fleet help {thing} {word}" in err


def test_boot(run) -> None:
    conductor = fakes.Conductor()
    run(conductor, "boot", "--flavor", "vcpus=1,memory_mb=1", "--tag", "x", "--description", "mine", "web")
    (request,) = conductor.requests
    assert (["x"], "mine") == (request["tags"], request["description"])
