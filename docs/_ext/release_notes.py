# SPDX-License-Identifier: Apache-2.0
"""Sets the release notes as dated sections, each with its version. A page includes them with ``.. dated-notes::``.

The notes are reno's: a file of ``releasenotes/notes`` for each change, with lists by kind. reno takes versions from tags
only, and has one section for all that is not tagged. Here a note that a tag contains belongs to the section of the first
such tag, with the tag's date. Any other note belongs to the version that ``fleet --version`` prints, and to the day on
which it was added.
"""

from __future__ import annotations

import dataclasses
import pathlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import yaml

NOTES = "releasenotes/notes"
#: By key of a note, the heading; in the order of a section.
KINDS: Mapping[str, str] = {
    "prelude": "",
    "features": "New",
    "upgrade": "Upgrade",
    "deprecations": "Deprecated",
    "security": "Security",
    "fixes": "Fixed",
    "issues": "Known issues",
    "critical": "Critical",
    "other": "Other",
}


@dataclasses.dataclass(frozen=True, order=True)
class Section:
    """The notes of one version and day. ``date`` is ISO 8601."""

    date: str
    version: str

    @property
    def title(self) -> str:
        return f"{self.version}, {self.date}"


def sections(root: pathlib.Path, version: str) -> dict[Section, list[str]]:
    """Return the names of the notes by section, the newest section first. :param version: of what is not tagged"""
    tagged = _tagged(root)
    found: dict[Section, list[str]] = {}
    for name, date in _added(root):
        if (root / NOTES / name).exists():
            found.setdefault(tagged.get(name) or Section(date, version), []).append(name)
    return dict(sorted(found.items(), reverse=True))


def _git(root: pathlib.Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", root, *arguments], capture_output=True, text=True, check=True).stdout


def _tagged(root: pathlib.Path) -> dict[str, Section]:
    """Return the section of each note that a tag contains."""
    found: dict[str, Section] = {}
    for line in _git(
        root, "tag", "--list", "--sort=creatordate", "--format=%(creatordate:short) %(refname:short)"
    ).splitlines():
        date, tag = line.split()
        for path in _git(root, "ls-tree", "-r", "--name-only", tag, NOTES).splitlines():
            found.setdefault(pathlib.PurePath(path).name, Section(date, tag.removeprefix("v")))
    return found


def _added(root: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Yield each note once, with the day of its first commit; the newest first."""
    days: dict[str, str] = {}
    log = _git(root, "log", "--no-renames", "--diff-filter=A", "--format=:%as", "--name-only", "--", NOTES)
    day = ""
    for line in log.splitlines():
        if line.startswith(":"):
            day = line[1:]
        elif line.endswith(".yaml"):
            # A note that was removed and added again has its first day.
            days[pathlib.PurePath(line).name] = day
    yield from days.items()


def as_text(found: Mapping[Section, Iterable[str]], read: Any) -> str:
    """Return reStructuredText. :param read: returns the content of a note by its name"""
    lines: list[str] = []
    for section, names in found.items():
        lines += ["", section.title, "=" * len(section.title), ""]
        notes = [read(name) for name in names]
        for kind, heading in KINDS.items():
            items = [text for note in notes for text in _items(note.get(kind))]
            if items and heading:
                lines += [heading, "-" * len(heading), ""]
            for item in items:
                lines += _bullet(item) if heading else [item, ""]
    return "\n".join(lines)


def _items(value: str | Sequence[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _bullet(text: str) -> list[str]:
    first, *others = text.strip().splitlines()
    return [f"- {first}", *(f"  {line}" if line else "" for line in others), ""]


def setup(app: Any) -> dict[str, bool]:
    from sphinx.util.docutils import SphinxDirective

    class DatedNotes(SphinxDirective):
        """``.. dated-notes::``"""

        def run(self) -> list[Any]:
            root = pathlib.Path(self.env.srcdir).parent
            self.env.note_dependency(str(root / NOTES))

            def read(name: str) -> Any:
                return yaml.safe_load((root / NOTES / name).read_text())

            text = as_text(sections(root, self.config.release), read)
            return self.parse_text_to_nodes(text, allow_section_headings=True)

    app.add_directive("dated-notes", DatedNotes)
    return {"parallel_read_safe": True}
