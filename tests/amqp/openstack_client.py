# SPDX-License-Identifier: Apache-2.0
"""The ``openstack`` client as it is installed from the package registry.

``runner`` returns a function that runs commands. They run in one process for the whole session, see ``client_commands``.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from tests import leftovers

#: The virtual environment with the client; ``make client`` creates it.
VENV = pathlib.Path(os.environ.get("FLEET_CLIENT_VENV", pathlib.Path(__file__).parents[2] / ".venv-client"))
Client = Callable[..., Any]


class Commands:
    """The process starts at the first command."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="fleet-client-")
        program = [VENV / "bin/python", "-I", pathlib.Path(__file__).with_name("client_commands.py")]
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
        )
        leftovers.KEEPERS.append(self)

    def run(self, words: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
        """Run one command with these variables. Call it from one thread at a time."""
        files = {name: pathlib.Path(self._directory.name) / name for name in ("printed", "complained")}
        asked = {"words": words, "environment": variables, **{name: str(path) for name, path in files.items()}}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(asked), file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(words, status, *(path.read_text() for path in files.values()))

    def keeps_process(self, pid: int) -> bool:
        return pid == self._process.pid

    def keeps_thread(self, _thread: object) -> bool:
        return False

    def close(self) -> None:
        leftovers.KEEPERS.remove(self)
        self._process.communicate()
        self._directory.cleanup()


_COMMANDS: list[Commands] = []


def end() -> None:
    """End the process, if there is one."""
    while _COMMANDS:
        _COMMANDS.pop().close()


def environment() -> dict[str, str]:
    """Variables that reach the client, but for those that a test sets."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}


def runner(known: dict[str, str]) -> Client:
    """Return a function that runs the client with these variables; it returns the client's JSON, or its text."""
    if not (VENV / "bin/openstack").exists():
        pytest.skip(f"the openstack client is not installed in {VENV}: make client")
    variables = {**environment(), **known}

    def run(line: str, status: int = 0, form: str = "-f json", from_script: bool = False) -> Any:
        """:param from_script: run the console script, as users do"""
        words = [*line.split(), *form.split()]
        if from_script:
            words = [str(VENV / "bin/openstack"), *words]
            done = subprocess.run(words, capture_output=True, text=True, env=variables, timeout=180, check=False)
        else:
            if not _COMMANDS:
                _COMMANDS.append(Commands())
            done = _COMMANDS[0].run(words, variables)
        assert status == done.returncode, done.stdout + done.stderr
        try:
            return json.loads(done.stdout)
        except ValueError:
            return done.stdout + done.stderr

    return run
