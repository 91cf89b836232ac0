# SPDX-License-Identifier: Apache-2.0
"""The files of a guest that hosts may read: hard links in a directory of their own, which libvirt opens as a storage pool.

libvirt looks into each file of a pool, and follows what it finds there to other files of the host. Nothing that a guest
writes by itself, such as the log of its console, may therefore be in that directory. Files that never change are in it
all the time: a host reads them while the guest runs. Its disks are in it while it moves and is off; QEMU has written
their headers.

Called by :mod:`compute_agent.drivers.libvirt.disks.guest_disks` and :mod:`compute_agent.drivers.libvirt.live_moves`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterable

#: Name of the directory in that of the guest.
OPENED = "opened"
#: libvirt, which reads it, is root.
_MODE = 0o700


def show(directory: pathlib.Path, names: Iterable[str]) -> None:
    """Link those of a guest's files that there are. May be repeated."""
    opened = directory / OPENED
    opened.mkdir(mode=_MODE, exist_ok=True)
    for name in names:
        with contextlib.suppress(FileNotFoundError):
            if (opened / name).exists() and os.path.samefile(directory / name, opened / name):
                continue
            (opened / name).unlink(missing_ok=True)
            os.link(directory / name, opened / name)


def hide(directory: pathlib.Path, names: Iterable[str]) -> None:
    """Remove the links of these names. May be repeated."""
    for name in names:
        (directory / OPENED / name).unlink(missing_ok=True)
