# SPDX-License-Identifier: Apache-2.0
"""Runs the commands of a page in a directory of its own, on a trio started like ``make up``.

``fleet`` commands and the trio run in children of :mod:`tests.manual.commands`, which saves seconds of imports. Other
commands run in a shell. ``make up`` starts the trio, or starts it again with what the page has changed meanwhile.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

from fleet_trial import trio_config
from fleet_trial.private_servers.process import free_ports
from tests.manual import commands, page

ROOT = pathlib.Path(__file__).parents[2]
#: What the manual calls the directory of the source.
SHOWN = "/home/you/fleet"
_START_TIMEOUT_S = 90
#: Of a command that waits: how far it is. A page does not show it.
_PROGRESS = re.compile(r"^\d+ of \d+ (builds|moves|deletions|instances|requests|hosts are SIMULATED).*\n", re.MULTILINE)


class Session:
    """``directory`` stands for the directory of the source in a reader's terminal."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        # Another run on this machine may have the usual one.
        (self._port,) = free_ports(1)
        self.configuration = directory / ".fleet/fleet.conf"
        self._trio: int | None = None
        self._status = 0
        self._python_path: str | None = None
        module = re.search(r"-m (\S+) up --broker", (ROOT / "Makefile").read_text())
        assert module, "the Makefile has no recipe for 'make up'"
        command = [sys.executable, "-m", "tests.manual.commands", module.group(1), str(self._port)]
        self._commands = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, name: str) -> Iterator[tuple[page.Block, list[str]]]:
        """What each console block of the page ``name`` prints, command by command."""
        for block in page.blocks(name):
            if block.kind == "console":
                yield block, [self._shown(self._command(command.line)) for command in block.commands]
            elif block.file_name:
                (self.directory / block.file_name).write_text(self._with_port(block.text))
            elif block.configures:
                with self.configuration.open("a") as configuration:
                    configuration.write(block.text)

    def close(self) -> None:
        self._stop()
        self._commands.communicate()

    def _stop(self) -> None:
        if self._trio is not None:
            self._ask([commands.STOP, str(self._trio)], self.directory / "printed")
            self._trio = None

    def _with_port(self, text: str) -> str:
        return text.replace(f":{trio_config.API_PORT}", f":{self._port}")

    def _command(self, line: str) -> str:
        line = self._with_port(line)
        if line.endswith("make up"):
            return self._make_up(line)
        if line.startswith("export "):
            return ""
        if line == "echo $?":
            return f"{self._status}\n"
        words = shlex.split(line)
        if words[0] in ("fleet", "fleet-manage") and not re.search(r"[|<>&;$`]", line):
            return self._in_a_child(words)
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.directory,
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        self._status = done.returncode
        return done.stdout + done.stderr

    def _in_a_child(self, words: list[str]) -> str:
        path = self.directory / "printed"
        self._status = self._ask(words, path)
        text = _PROGRESS.sub("", path.read_text())
        return text if not text or text.endswith("\n") else text + "\n"

    def _ask(self, words: list[str], printed: pathlib.Path) -> int:
        asked = {"words": words, "environment": self._environment(), "printed": str(printed)}
        assert self._commands.stdin is not None
        assert self._commands.stdout is not None
        self._commands.stdin.write(json.dumps(asked) + "\n")
        self._commands.stdin.flush()
        return int(self._commands.stdout.readline())

    def _make_up(self, line: str) -> str:
        """Start the trio, and return what it prints until it is up."""
        self._stop()
        settings = [word.partition("=") for word in line.split()[:-2]]
        variables = {name: value for name, _, value in settings}
        self._python_path = str(self.directory) if variables.get("PYTHONPATH") == "$PWD" else None
        hosts = ["--hosts", variables["HOSTS"]] if "HOSTS" in variables else []
        path = self.directory / "trio"
        path.write_text("")
        directory = str(self.directory / ".fleet")
        self._trio = self._ask([commands.TRIO, "up", "--directory", directory, *hosts], path)
        printed = _until(path, "Ctrl-C stops it.\n")
        self._wait_for_hosts()
        return printed

    def _wait_for_hosts(self) -> None:
        """A host that was stopped is enabled by the first report of its next agent, an instant after it is up."""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while "AUTO:" in self._in_a_child(["fleet", "service", "list", "-f", "json"]):
            if time.monotonic() > deadline:
                raise RuntimeError("hosts stay disabled")
            time.sleep(0.2)

    def _environment(self) -> dict[str, str]:
        path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
        python_path = os.pathsep.join(filter(None, [self._python_path, str(ROOT)]))
        return {
            **os.environ, "PATH": path, "FLEET_CONFIG_FILE": str(self.configuration), "PYTHONPATH": python_path,
            "PYTHONUNBUFFERED": "1", "COLUMNS": "96",
        }  # fmt: skip

    def _shown(self, printed: str) -> str:
        """As it would read in a reader's own directory."""
        printed = printed.replace(str(self.directory.resolve()), SHOWN).replace(str(self.directory), SHOWN)
        printed = printed.replace(f":{self._port}", f":{trio_config.API_PORT}")
        printed = re.sub(rf"(?<=\| ){re.escape(socket.gethostname())} *(?= \|)", _this_machine, printed)
        return printed.replace(str(pathlib.Path(sys.executable).parent), f"{SHOWN}/.venv/bin")


def _this_machine(cell: re.Match[str]) -> str:
    """A name of this machine in a table, in as much room."""
    return "node1".ljust(len(cell.group()))


def _until(path: pathlib.Path, mark: str) -> str:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while mark not in (printed := path.read_text()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"the trio did not start: {printed}")
        time.sleep(0.05)
    return printed
