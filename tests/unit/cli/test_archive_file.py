# SPDX-License-Identifier: Apache-2.0
"""The file of ``fleet-manage db archive`` has whole lines only, also after a crash and on a full disk."""

from __future__ import annotations

import errno
import io
import pathlib

import pytest

from fleet.client.connection import CommandFailed
from fleet_cli.upkeep import archive_file
from fleet_cli.upkeep.archive_file import ArchiveFile


class AlmostFull(io.FileIO):
    """A file on a disk that has room for a few bytes only."""

    def __init__(self, path: pathlib.Path, room: int) -> None:
        super().__init__(path, "a+")
        self._room = room

    def write(self, data: bytes) -> int:
        if not self._room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = super().write(data[: self._room])
        self._room -= written
        return written


def test_a_full_disk_leaves_whole_lines(tmp_path: pathlib.Path) -> None:
    """What is written of the lines is taken away again: the next run would add to half a line."""
    path = tmp_path / "old.jsonl"
    path.write_text("first\n")
    with AlmostFull(path, 9) as file:
        written = ArchiveFile(file)
        written.append("2nd\n")
        with pytest.raises(OSError, match="No space left"):
            written.append("third\n")
    assert "first\n2nd\n" == path.read_text()


def test_lines_are_appended(tmp_path: pathlib.Path) -> None:
    """A file that is not there is made."""
    path = tmp_path / "old.jsonl"
    with archive_file.opened(str(path)) as file:
        file.append("one\n")
        file.append("two\n")
    assert "one\ntwo\n" == path.read_text()


def test_half_a_line_stays_alone(tmp_path: pathlib.Path) -> None:
    """A crash has left it. The next lines are whole."""
    path = tmp_path / "old.jsonl"
    path.write_text("fir")
    with archive_file.opened(str(path)) as file:
        file.append("2nd\n")
        file.append("third\n")
    assert "fir\n2nd\nthird\n" == path.read_text()


def test_one_program_at_a_time(tmp_path: pathlib.Path) -> None:
    """Lines of two programs would be mixed."""
    path = str(tmp_path / "old.jsonl")
    with (
        archive_file.opened(path),
        pytest.raises(CommandFailed, match="another 'db archive' writes to it"),
        archive_file.opened(path),
    ):
        raise AssertionError
    with archive_file.opened(path):
        pass
