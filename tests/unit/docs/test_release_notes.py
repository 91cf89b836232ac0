# SPDX-License-Identifier: Apache-2.0
"""The release notes are dated sections, with the version that ``fleet --version`` prints."""

from __future__ import annotations

import datetime
import importlib.util
import os
import pathlib
import subprocess
import sys
import types

import pytest
import yaml

from fleet_cli import main

ROOT = pathlib.Path(__file__).parents[3]


@pytest.fixture
def release_notes(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("release_notes", ROOT / "docs/_ext/release_notes.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # A dataclass looks for its module there.
    monkeypatch.setitem(sys.modules, "release_notes", module)
    spec.loader.exec_module(module)
    return module


class Repository:
    """A repository with notes."""

    def __init__(self, root: pathlib.Path) -> None:
        self.root = root
        self.git("init", "-q")
        (root / "releasenotes/notes").mkdir(parents=True)

    def git(self, *arguments: str, day: str = "2026-01-01") -> None:
        who = {f"GIT_{kind}_{what}": "x@y" for kind in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        when = {f"GIT_{kind}_DATE": f"{day}T12:00:00Z" for kind in ("AUTHOR", "COMMITTER")}
        nothing = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        subprocess.run(["git", "-C", self.root, *arguments], check=True, env={**os.environ, **who, **when, **nothing})

    def note(self, name: str, day: str, **content: object) -> None:
        (self.root / "releasenotes/notes" / name).write_text(yaml.safe_dump(content or {"fixes": [name]}))
        self.git("add", ".")
        self.git("commit", "-qm", name, day=day)


def test_by_version_and_day(release_notes: types.ModuleType, tmp_path: pathlib.Path) -> None:
    """A note of a tag has the tag's version and day; others have the present version and the day they were added."""
    repository = Repository(tmp_path)
    repository.note("first.yaml", "2026-01-01")
    repository.git("tag", "v0.1.0", day="2026-01-05")
    repository.note("second.yaml", "2026-02-01")
    repository.note("third.yaml", "2026-02-01")
    repository.note("first.yaml", "2026-03-01", fixes=["a change of its words is no new note"])
    repository.note("fourth.yaml", "2026-03-02")
    (tmp_path / "releasenotes/notes/third.yaml").unlink()
    found = release_notes.sections(tmp_path, "0.2.0")
    assert [
        ("0.2.0, 2026-03-02", ["fourth.yaml"]),
        ("0.2.0, 2026-02-01", ["second.yaml"]),
        ("0.1.0, 2026-01-01", ["first.yaml"]),
    ] == [(section.title, names) for section, names in found.items()]


def test_the_words(release_notes: types.ModuleType) -> None:
    """Kinds in their order, each item once; a note of several lines keeps its indent."""
    section = release_notes.Section("2026-02-01", "0.2.0")
    notes = {
        "a": {"fixes": ["One\nand more."], "features": ["New one."]},
        "b": {"prelude": "Before all.", "features": ["New two."]},
    }
    expected = """
0.2.0, 2026-02-01
=================

Before all.

New
---

- New one.

- New two.

Fixed
-----

- One
  and more.
"""
    assert expected == release_notes.as_text({section: ["a", "b"]}, notes.__getitem__)


def test_every_note_of_this_program(release_notes: types.ModuleType, capsys: pytest.CaptureFixture) -> None:
    """Each is in one section, has only kinds that are shown, and the newest sections have the program's version."""
    if not (ROOT / ".git").exists():
        pytest.skip("the history is not here")
    with pytest.raises(SystemExit):
        main.FleetApp().run(["--version"])
    version = capsys.readouterr().out.split()[-1]
    found = release_notes.sections(ROOT, version)
    names = [name for of_section in found.values() for name in of_section]
    committed = {path.name for path in (ROOT / release_notes.NOTES).glob("*.yaml")}
    assert len(names) == len(set(names))
    assert set(names) <= committed
    assert version == next(iter(found)).version
    assert all(datetime.date.fromisoformat(each.date) for each in found)
    for path in (ROOT / release_notes.NOTES).glob("*.yaml"):
        assert set(yaml.safe_load(path.read_text())) <= set(release_notes.KINDS), path.name
