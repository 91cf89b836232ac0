# SPDX-License-Identifier: Apache-2.0
"""Runs programs of ours in children that have imported them already: ``python -m tests.manual.commands MODULE PORT``.

``MODULE`` is the trio's, as the Makefile names it, and ``PORT`` that of its HTTP door. Each line of the input is a JSON
object: ``words``, ``environment``, and ``printed``, the file for what the program prints. The answer to ``fleet`` and
``fleet-manage`` is the exit status. The trio runs on: its answer is the pid, and ``stop PID`` ends it as Ctrl-C does.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from fleet_cli import main, manage
from fleet_trial import trio_config

TRIO = "trio"
STOP = "stop"


def serve(programs: dict[str, Callable[[list[str]], int]]) -> None:
    # Import all commands, and have cliff look through the installed packages, once and not in every child.
    commands = {each.name: each.load() for each in main.entry_points()}
    commands["host list"](None, None).get_parser("fleet host list")
    gc.freeze()
    for line in sys.stdin:
        asked = json.loads(line)
        print(_answer(programs, **asked), flush=True)


def _answer(programs: dict[str, Callable[[list[str]], int]], words: list[str], environment: dict, printed: str) -> int:
    if words[0] == STOP:
        os.kill(int(words[1]), signal.SIGINT)
        return _wait(int(words[1]))
    child = os.fork()
    if child == 0:
        _become(environment, printed)
        _end(programs[words[0]], words[1:])
    return child if words[0] == TRIO else _wait(child)


def _end(program: Callable[[list[str]], int], words: list[str]) -> NoReturn:
    """Run a program as the last thing of this process, without taking apart what the parent goes on with."""
    status = 1
    try:
        status = program(words)
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _wait(child: int) -> int:
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _become(environment: dict[str, str], printed: str) -> None:
    """Take over the environment, with its path of Python, and write into a file."""
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:0] = environment["PYTHONPATH"].split(os.pathsep)
    file = os.open(printed, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(file, 1)
    os.dup2(file, 2)


if __name__ == "__main__":
    trio_config.API_PORT = int(sys.argv[2])
    serve({TRIO: importlib.import_module(sys.argv[1]).main, "fleet": main.main, "fleet-manage": manage.main})
