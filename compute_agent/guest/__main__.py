# SPDX-License-Identifier: Apache-2.0
"""Runs one guest's command and restarts it when it ends, until SIGTERM: ``python -m guest DIRECTORY``.

:mod:`compute_agent.drivers.local` starts it beside each guest.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pwd
import resource
import signal
import subprocess
import sys
import time
from typing import Any

from . import state_file
from .process import Identity

#: Files: the agent's order to the supervisor, and the supervisor's state for the agent.
ORDER_FILE = "guest.json"
STATE_FILE = "supervisor.json"

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0
#: A guest that ran this many seconds was healthy: its next failure counts as the first.
WELL_AFTER_S = 10.0

_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
_STOP = {signal.SIGTERM, signal.SIGINT}


def main(argv: list[str]) -> int:
    directory = pathlib.Path(argv[0])
    order = state_file.read(directory / ORDER_FILE)
    if order is None:
        return 1
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        return supervise(directory, order)
    except FileNotFoundError:
        # The directory is gone: the instance was destroyed while this supervisor started.
        return 0


def supervise(directory: pathlib.Path, order: dict[str, Any]) -> int:
    state: dict[str, Any] = {"supervisor": _own_identity(), "restarts": -1}
    pause = FIRST_PAUSE_S
    while True:
        started = time.monotonic()
        try:
            child = start(directory, order)
        except OSError as failure:
            state_file.write(directory / STATE_FILE, {"error": f"cannot run {order['command'][0]}: {failure.strerror}"})
            return 1
        try:
            identity = Identity.of(child.pid)
            state.update(restarts=state["restarts"] + 1, child=identity.to_dict() if identity else None)
            state_file.write(directory / STATE_FILE, state)
            stopped = _wait(child)
        finally:
            end(child, order["destroy_timeout_s"])
        if stopped:
            return 0
        pause = FIRST_PAUSE_S if time.monotonic() - started > WELL_AFTER_S else min(2 * pause, LONGEST_PAUSE_S)
        if signal.sigtimedwait(_STOP, pause):
            return 0


def start(directory: pathlib.Path, order: dict[str, Any]) -> subprocess.Popen[bytes]:
    """Start in a session of its own, so that the guest and all its children end together."""
    memory = order["address_space_bytes"]
    # An order of an earlier release has no user.
    user = order.get("user") or None
    home, identity = _home(directory, user), _identity(user)

    def limit() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    return subprocess.Popen(
        order["command"],
        cwd=home,
        env={**_inherited(), "HOME": str(home), **order["environment"]},
        **identity,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        # Safe here: this process has one thread.
        preexec_fn=limit,
    )


def _home(directory: pathlib.Path, user: str | None) -> pathlib.Path:
    """Return the guest's working directory. Another user must not own the directory that has the order."""
    if user is None:
        return directory
    home = directory / "home"
    home.mkdir(mode=0o700, exist_ok=True)
    known = pwd.getpwnam(user)
    os.chown(home, known.pw_uid, known.pw_gid)
    return home


def _identity(user: str | None) -> dict[str, Any]:
    """Return arguments for ``Popen``. Only root can set groups; they are the user's then."""
    if user is None or os.geteuid() != 0:
        return {}
    known = pwd.getpwnam(user)
    return {"user": known.pw_uid, "group": known.pw_gid, "extra_groups": os.getgrouplist(user, known.pw_gid)}


def end(child: subprocess.Popen[bytes], timeout_s: float) -> None:
    """Ask the guest's session to end; kill the rest of it after ``timeout_s``.

    The guest is reaped last: until then its pid, which is also its group's number, is not reused.
    """
    identity = Identity.of(child.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        # A suspended guest ends only if it goes on.
        os.killpg(child.pid, signal.SIGCONT)
    if identity is not None:
        identity.wait(timeout_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _wait(child: subprocess.Popen[bytes]) -> bool:
    """Return False when the guest ends, True when this supervisor must stop."""
    while os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if signal.sigwait(_SIGNALS) in _STOP:
            return True
    return False


def _inherited() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _own_identity() -> dict[str, Any]:
    own = Identity.of(os.getpid())
    assert own is not None
    return own.to_dict()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
