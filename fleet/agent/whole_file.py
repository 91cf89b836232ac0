# SPDX-License-Identifier: Apache-2.0
"""Large files that are written as a whole or not at all, also if the machine crashes.

The drivers write images and disks through it.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator

#: Begins the name of a temporary file. A crash leaves it: remove such files at the start.
PART = ".part-"
#: Bytes of a block in the status of a file. The blocks of its file system may have another size.
_BLOCK = 512


def stored_size(status: os.stat_result) -> int:
    """Return the bytes that a file takes of its file system: holes take none."""
    return status.st_blocks * _BLOCK


def part_of(path: pathlib.Path) -> pathlib.Path:
    """Return where a file is until it is whole."""
    return path.with_name(f"{PART}{path.name}")


@contextlib.contextmanager
def written(path: pathlib.Path, mode: int = 0o600) -> Iterator[pathlib.Path]:
    """Write a file: the body writes the path that it is given, which then gets its name."""
    part = part_of(path)
    try:
        yield part
        part.chmod(mode)
        flush(part)
        os.rename(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    flush(path.parent)


def flush(path: pathlib.Path) -> None:
    """Write a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
