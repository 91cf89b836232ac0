# SPDX-License-Identifier: Apache-2.0
"""The directory of a pool, held while its backend is served. :mod:`volume_agent.drivers.directory` holds one for each pool.

The open directory keeps its file system from being unmounted. If it is unmounted all the same (lazily, or by force), nothing
is done in the directory that was below it.
"""

from __future__ import annotations

import fcntl
import os
import pathlib
import re
import weakref

from oslo_utils import uuidutils

#: Prefix of the name of a subdirectory. Its random name distinguishes a pool from one with the same path elsewhere.
MARK = ".pool-"
_MARK_NAME = re.compile(re.escape(MARK) + r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PoolDirectory:
    """A directory that this process holds until :meth:`release`, or until the object is gone."""

    def __init__(self, pool: str, path: pathlib.Path) -> None:
        """:raises OSError: it cannot be opened, or another backend of this machine serves it"""
        self._pool = pool
        self._path = path
        self._mark = ""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.release = weakref.finalize(self, os.close, self._descriptor)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            reason = "another backend serves it, and each would take the volumes of the other for copies"
            raise OSError(f"pool {pool}: {path} cannot be served: {reason}") from None
        except OSError:
            # Some file systems, such as NFS, lock no directory.
            pass

    def require(self) -> pathlib.Path:
        """Return the path. :raises OSError: it leads to another directory now, or to none"""
        there = os.stat(self._path)
        if not os.path.samestat(there, os.fstat(self._descriptor)):
            reason = "mount it again; if it is mounted, restart the agent"
            raise OSError(
                f"pool {self._pool}: the file system of {self._path} was unmounted while it was served: {reason}"
            )
        return self._path

    def place(self) -> pathlib.Path:
        """Return a path that leads to the directory where its file system is, and on other machines to nothing.

        It goes through a directory with a random name, which is made once. Another machine that has a directory of the same
        path does not have this one.

        :raises OSError: the path leads to another directory now, or nothing can be made there
        """
        path = self.require()
        if not (self._mark and (path / self._mark).is_dir()):
            self._mark = _mark(path)
        return path / self._mark / ".."


def _mark(path: pathlib.Path) -> str:
    """Return the name of the directory that marks ``path``. Make one if there is none. :raises OSError:"""
    with os.scandir(path) as entries:
        found = sorted(
            each.name for each in entries if _MARK_NAME.fullmatch(each.name) and each.is_dir(follow_symlinks=False)
        )
    if found:
        return found[0]
    name = f"{MARK}{uuidutils.generate_uuid()}"
    (path / name).mkdir(mode=0o711)
    return name
