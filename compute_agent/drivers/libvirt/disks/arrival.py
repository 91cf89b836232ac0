# SPDX-License-Identifier: Apache-2.0
"""Copies the files of a guest that arrives from another host.

:mod:`compute_agent.drivers.libvirt.disks.guest_disks` calls it for a cold move.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable

from compute_agent.drivers.libvirt.domains.peer import Files
from fleet import failpoints

#: Like other files of guests: libvirt gives them to the hypervisor's user.
_MODE = 0o600


def copy(files: Files, directory: pathlib.Path, names: Iterable[str], progress: Callable[[int], object]) -> None:
    """Copy those of the files that there are.

    The agent gives a copy up that takes too long: it removes the directory, and may make it again for another copy. What is
    opened here is therefore opened in the directory of the beginning.

    :param progress: is called with the copied part in per cent
    :raises OSError: also if the directory is removed meanwhile
    """
    stored = {name: size for name, size in files.stored().items() if name in set(names)}
    total, done = max(1, sum(stored.values())), 0
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for name in stored:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            with open(os.open(name, flags, _MODE, dir_fd=handle), "wb") as file:
                for piece in files.read(name):
                    if isinstance(piece, int):
                        file.seek(piece, os.SEEK_CUR)
                        continue
                    file.write(piece)
                    done += len(piece)
                    progress(min(99, done * 100 // total))
                    failpoints.hit("libvirt.copy.during")
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        if not os.path.samestat(os.fstat(handle), os.stat(directory)):
            raise FileNotFoundError(f"{directory} was removed while disks were copied to it")
    finally:
        os.close(handle)
