# SPDX-License-Identifier: Apache-2.0
"""The disks of a guest that is resized on its host: they grow, and are as before if the resize is undone.

Their former content is kept in the guest's directory::

    (nothing) ── all copied ──▶ before/ ── resize confirmed ──▶ (nothing)
                                  └── resize undone: new disks removed ──▶ returning/ ── each moved back ──▶ (nothing)

Every function may be repeated after a crash. The guest is off while they run, but for :func:`require_no_smaller` and
:func:`forget`.

Called by :mod:`compute_agent.drivers.libvirt.disks.guest_disks`.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import shutil
from collections.abc import Mapping

from compute_agent.drivers.base import SpawnFailed
from fleet.agent import commands, time_limit, whole_file

_BEFORE, _RETURNING = "before", "returning"
#: Copies that are being made or removed.
_PART = f"{whole_file.PART}{_BEFORE}"


def require_no_smaller(directory: pathlib.Path, sizes: Mapping[str, int]) -> None:
    """:raises SpawnFailed: a disk would be smaller than it is. :param sizes: bytes by disk; others are not compared"""
    for name, size in sizes.items():
        path = directory / name
        if path.exists() and _size(path) > size:
            reason = f"the disk {name} has {_size(path)} bytes, the flavor {size}: a disk cannot become smaller"
            raise SpawnFailed(f"The guest cannot be resized: {reason}")


def keep(directory: pathlib.Path, names: tuple[str, ...]) -> None:
    """Copy the disks of these names that there are, if that has not been done yet.

    :raises OSError: also if the file system has no room for the copies; none is left then
    """
    kept, part = directory / _BEFORE, directory / _PART
    if kept.exists():
        return
    time_limit.require_wanted()
    _clear(part)
    with time_limit.undone(lambda: _clear(part)):
        part.mkdir(mode=0o700)
        for name in names:
            if (directory / name).exists():
                time_limit.require_wanted()
                _copy(directory / name, part / name)
                whole_file.flush(part / name)
        # The copy may have taken too long.
        time_limit.require_wanted()
        part.rename(kept)
    whole_file.flush(directory)


def _copy(path: pathlib.Path, copy: pathlib.Path) -> None:
    """:raises OSError: a copy would fill the file system, on which other guests write"""
    with contextlib.suppress(OSError):
        commands.run("cp", "--reflink=always", str(path), str(copy))
        return
    needed, free = whole_file.stored_size(path.stat()), shutil.disk_usage(copy.parent).free
    if needed > free:
        raise OSError(f"to keep the disk {path.name} takes {needed} bytes, and {free} are free")
    commands.run("cp", "--sparse=always", str(path), str(copy))


def clear(directory: pathlib.Path) -> None:
    """Remove what a crash has left of :func:`keep` or :func:`forget`."""
    _clear(directory / _PART)


def grow(path: pathlib.Path, size: int) -> None:
    if _size(path) < size:
        time_limit.require_wanted()
        commands.run("qemu-img", "resize", "-q", "-f", "qcow2", str(path), str(size))


def is_kept(directory: pathlib.Path) -> bool:
    """Return True if there is anything for :func:`give_back`, also what a crash has left of a copy."""
    return any((directory / name).exists() for name in (_BEFORE, _RETURNING, _PART))


def give_back(directory: pathlib.Path, names: tuple[str, ...]) -> None:
    """Give the disks of these names their former content, and remove those that are new."""
    kept, returning = directory / _BEFORE, directory / _RETURNING
    if kept.exists():
        for name in names:
            if not (kept / name).exists():
                (directory / name).unlink(missing_ok=True)
        kept.rename(returning)
    if returning.exists():
        for path in returning.iterdir():
            path.rename(directory / path.name)
        returning.rmdir()
    _clear(directory / _PART)


def forget(directory: pathlib.Path) -> None:
    """Remove the former content: the resize is confirmed."""
    part = directory / _PART
    _clear(part)
    if (directory / _BEFORE).exists():
        # Half of it must not be given back.
        (directory / _BEFORE).rename(part)
        _clear(part)


def _clear(part: pathlib.Path) -> None:
    if part.exists():
        shutil.rmtree(part)


def _size(path: pathlib.Path) -> int:
    """Bytes that the guest sees; it may be running."""
    text = commands.run("qemu-img", "info", "-U", "--output=json", str(path), timeout_s=commands.QUICK_S)
    size: int = json.loads(text)["virtual-size"]
    return size
