# SPDX-License-Identifier: Apache-2.0
"""Runs programs of ours in children of a process that has imported them once: ``python -m tests.amqp.launcher [old]``.

A daemon takes half a second to a second and a half of processor time from its console script until it has imported what it
needs, and a few hundredths here. It is a process as always, with its own session, signals and files. Each line of the input
is a JSON object with one of the keys ``start`` and ``poll``; the answer is a pid, or the exit status (null while it runs).

With ``old`` its only program is ``old``, a daemon of :mod:`tests.amqp.old_release`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable

import fleet_start

PROGRAMS: dict[str, Callable[[], int]] = {
    "fleet-conductor": fleet_start.conductor,
    "fleet-scheduler": fleet_start.scheduler,
    "fleet-compute": fleet_start.compute,
    "fleet-volume": fleet_start.volume,
    "fleet-api": fleet_start.api,
    "fleet": fleet_start.fleet,
    "fleet-manage": fleet_start.manage,
}
#: The name of a daemon of the release before; its first argument is the service.
OLD = "old"
_MODULES = ("conductor_stub", "scheduler", "compute_agent", "volume_agent", "fleet_api", "fleet_cli")


def load() -> None:
    """Import what the programs import."""
    for package in _MODULES:
        importlib.import_module(f"{package}.main")
    importlib.import_module("fleet_cli.manage")
    for each in sys.modules["fleet_cli.main"].entry_points():
        each.load()
    _forget_garbage()


def load_old() -> None:
    """Import the daemons of the release before. It changes versions before anything else is imported."""
    old_release = importlib.import_module("tests.amqp.old_release")
    for package in old_release.SERVICES.values():
        importlib.import_module(f"{package}.main")
    PROGRAMS.clear()
    PROGRAMS[OLD] = old_release.main
    _forget_garbage()


def _forget_garbage() -> None:
    # A child has the thread that forks it and no other.
    assert threading.active_count() == 1, threading.enumerate()
    gc.freeze()


def serve() -> None:
    ended: dict[int, int] = {}
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(_start(**asked["start"]) if "start" in asked else _poll(asked["poll"], ended)), flush=True)


def _start(words: list[str], environment: dict[str, str], printed: str, complained: str) -> int:
    become, is_ready = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(become)
        program = _become(words, environment, printed, complained)
        os.close(is_ready)
        sys.exit(program())
    os.close(is_ready)
    # The pid is for signals to the group of the child, which has one now.
    os.read(become, 1)
    os.close(become)
    return child


def _become(words: list[str], environment: dict[str, str], printed: str, complained: str) -> Callable[[], int]:
    """Make this process what the console script would be, and return the program."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    with open("/proc/self/comm", "w") as shown_by_top:
        shown_by_top.write(words[0])
    sys.argv[:] = [os.path.join(os.path.dirname(sys.executable), words[0]), *words[1:]]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, path in ((1, printed), (2, complained)):
        os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600), stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return PROGRAMS[words[0]]


def _poll(pid: int, ended: dict[int, int]) -> int | None:
    if pid not in ended:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found == 0:
            return None
        ended[pid] = os.waitstatus_to_exitcode(status)
    return ended[pid]


if __name__ == "__main__":
    # Ctrl-C is for the tests, which end this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    load_old() if sys.argv[1:] == [OLD] else load()
    serve()
