# SPDX-License-Identifier: Apache-2.0
"""The manual's drawings show the states, the statuses and the messages that the code has."""

from __future__ import annotations

import importlib.util
import inspect
import pathlib
import re
import sys
import types
from xml.etree import ElementTree

import pytest

from fleet import move_states, states
from fleet.rpc import clients

DOCS = pathlib.Path(__file__).parents[3] / "docs"


def _load() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("drawings", DOCS / "_ext/drawings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["drawings"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


drawings = _load()
NAMES = sorted(path.stem for path in drawings.DIRECTORY.glob("*.txt"))


@pytest.mark.parametrize("name", NAMES)
def test_a_drawing_is_well_formed(name: str) -> None:
    """It is valid XML, has a title for screen readers, and is on a page."""
    drawing = drawings.read(name)
    image = ElementTree.fromstring(drawings.svg(drawing))[0]
    assert drawing.title == image.get("aria-label")
    pages = [page for page in DOCS.glob("*.md") if f"```{{drawing}} {name}\n" in page.read_text()]
    assert len(pages) >= 1


_KINDS = (move_states.RESIZE, move_states.EVACUATION, move_states.LIVE_MIGRATION)


def _boxes(name: str) -> set[str]:
    return {box.name for box in drawings.read(name).boxes}


def test_the_states_of_a_build() -> None:
    """All steps of a build, and all states in which an instance may be afterwards."""
    ends = {states.ACTIVE, states.RESIZED, states.ERROR, states.DELETING, states.DELETED}
    assert {*states.BUILD_STEPS, states.QUEUED, *ends, "any state"} == _boxes("build-states")


def test_the_statuses_of_moves() -> None:
    """All drawings together have every status, and no other."""
    drawn = [_boxes(f"{kind}-states") for kind in _KINDS]
    assert set(move_states.ALL) == set().union(*drawn)


@pytest.mark.parametrize("kind", _KINDS)
def test_who_acts(kind: str) -> None:
    """A status that only a resize has is not in the drawing of an evacuation."""
    drawn = _boxes(f"{kind}-states")
    acted = {status for status in move_states.ALL if move_states.actor(kind, status, "source", "destination")}
    only_other = {
        status
        for status in move_states.ALL
        for other in _KINDS
        if move_states.actor(other, status, "source", "destination")
    } - acted
    assert acted <= drawn
    assert set() == only_other & drawn


def _methods() -> set[str]:
    """Every RPC method that a client may send; those of the operator namespace are given by name."""
    contract = (DOCS / "wire-contract.md").read_text()
    apis = [api for _, api in inspect.getmembers(clients, inspect.isclass) if issubclass(api, clients.API)]
    typed = {name for api in apis for name, _ in inspect.getmembers(api, inspect.isfunction)}
    return typed | set(re.findall(r"`(\w+)\(", contract))


@pytest.mark.parametrize("name", ["build", "move", "feed"])
def test_the_messages_of_a_sequence(name: str) -> None:
    """A message that is named like an RPC method is one."""
    sent = [arrow.label for arrow in drawings.read(name).arrows if re.fullmatch(r"[a-z]+_[a-z_]+|create", arrow.label)]
    assert sent
    assert [] == [method for method in sent if method not in _methods()]


def test_a_wrong_line_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An arrow to a box that is not there stops the build of the manual."""
    monkeypatch.setattr(drawings, "DIRECTORY", tmp_path)
    (tmp_path / "new.txt").write_text("graph: New\na @ 0,0\na -> b\n")
    with pytest.raises(ValueError, match="no box or lane is called 'b'"):
        drawings.read("new")
