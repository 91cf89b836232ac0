# SPDX-License-Identifier: Apache-2.0
"""Runs programs: never through a shell, and for a bounded time.

Called by modules of :mod:`compute_agent.drivers.libvirt.disks` and :mod:`volume_agent.drivers`.
"""

from __future__ import annotations

import os
import shutil
import subprocess

#: Seconds that a program may take that copies data, and one that does not.
COPYING_S, QUICK_S = 6 * 3600, 120
#: Languages differ in messages and numbers. lvm2 warns of inherited descriptors, which it closes.
_ENVIRONMENT = {"LC_ALL": "C", "LVM_SUPPRESS_FD_WARNINGS": "1"}
#: Where programs of the system are, which not every PATH has.
_SYSTEM = "/usr/sbin:/sbin"


def find(program: str) -> str | None:
    """Return the path of an installed program."""
    return shutil.which(program, path=_path())


def _path() -> str:
    return f"{os.environ.get('PATH', os.defpath)}:{_SYSTEM}"


def run(*command: str, timeout_s: float = COPYING_S) -> str:
    """Return the output of the program. :raises OSError: with what it has printed as an error, or how long it took"""
    environment = {**os.environ, **_ENVIRONMENT, "PATH": _path()}
    try:
        done = subprocess.run(
            [find(command[0]) or command[0], *command[1:]],
            capture_output=True,
            encoding="utf-8",
            # Names of files may be any bytes.
            errors="backslashreplace",
            check=False,
            env=environment,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"{command[0]} has not ended within {timeout_s:.0f} s") from None
    if done.returncode:
        raise OSError(f"{command[0]} ended with status {done.returncode}: {done.stderr.strip()[:200]}")
    return done.stdout
