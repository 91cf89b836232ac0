# SPDX-License-Identifier: Apache-2.0
"""The examples of a page: commands and their output, files to write, lines to append to the configuration."""

from __future__ import annotations

import dataclasses
import pathlib
import re

DOCS = pathlib.Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(console|python|ini)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\w+\.py)\n")
_CONFIGURATION = "# append to .fleet/fleet.conf\n"


@dataclasses.dataclass(frozen=True)
class Command:
    line: str
    output: str


@dataclasses.dataclass(frozen=True)
class Block:
    """``kind``: console, python or ini; ``start`` and ``end`` of its text in the page."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def commands(self) -> list[Command]:
        parts = re.split(r"^\$ ", self.text, flags=re.MULTILINE)
        if parts[0]:
            raise ValueError(f"a console block begins with output: {parts[0][:60]!r}")
        pairs = (part.partition("\n") for part in parts[1:])
        return [Command(line, output) for line, _, output in pairs]

    @property
    def file_name(self) -> str | None:
        """The file that a Python block is, if its first line names one."""
        found = _FILE.match(self.text) if self.kind == "python" else None
        return found.group(1) if found else None

    @property
    def configures(self) -> bool:
        return self.kind == "ini" and self.text.startswith(_CONFIGURATION)


def blocks(page: str) -> list[Block]:
    text = (DOCS / page).read_text()
    return [Block(found[1], found[2], found.start(2), found.end(2)) for found in _FENCE.finditer(text)]


def pages() -> list[str]:
    """Every page with examples that are run."""
    return sorted(path.name for path in DOCS.glob("*.md") if "\n```console\n" in path.read_text())


def rewrite(page: str, outputs: list[list[str]]) -> None:
    """Put ``outputs`` (one list for each console block) into the page."""
    path = DOCS / page
    text = path.read_text()
    consoles = [block for block in blocks(page) if block.kind == "console"]
    for block, printed in reversed(list(zip(consoles, outputs, strict=True))):
        lines = [f"$ {command.line}\n{output}" for command, output in zip(block.commands, printed, strict=True)]
        text = text[: block.start] + "".join(lines) + text[block.end :]
    path.write_text(text)
