# SPDX-License-Identifier: Apache-2.0
"""The file of ``fleet-manage db archive``: whole lines are appended, by one program at a time.

Called by :mod:`fleet_cli.upkeep.retention`.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from typing import BinaryIO

from fleet.client import connection

_NEWLINE = b"\n"


class ArchiveFile:
    """``_torn``: the file ends within a line, because a machine or a program has stopped while it was written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._torn = _ends_within_a_line(file)

    def append(self, lines: str) -> None:
        """Write ``lines`` to the disk, or nothing of them. :raises OSError:"""
        data = (_NEWLINE if self._torn else b"") + lines.encode()
        before = os.fstat(self._file.fileno()).st_size
        try:
            written = 0
            while written < len(data):
                written += self._file.write(data[written:])
            os.fsync(self._file.fileno())
        except OSError:
            with contextlib.suppress(OSError):
                self._file.truncate(before)
            raise
        self._torn = False


@contextlib.contextmanager
def opened(path: str) -> Iterator[ArchiveFile]:
    """:raises connection.CommandFailed: the file cannot be written, or another program writes to it"""
    try:
        with open(path, "ab+", buffering=0) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync_name(path)
            yield ArchiveFile(file)
    except BlockingIOError:
        raise connection.CommandFailed(f"{path}: another 'db archive' writes to it; wait until it has ended") from None
    except OSError as unwritable:
        raise connection.CommandFailed(f"{path}: {unwritable.strerror or unwritable}") from None


def _ends_within_a_line(file: BinaryIO) -> bool:
    size = os.fstat(file.fileno()).st_size
    if not size:
        return False
    file.seek(size - 1)
    return file.read(1) != _NEWLINE


def _sync_name(path: str) -> None:
    """A new file is lost with a crash if its directory is not on the disk. Some file systems cannot do so."""
    with contextlib.suppress(OSError):
        directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
