# SPDX-License-Identifier: Apache-2.0
"""Runs commands of ours in children that have imported them already: ``python -m tests.manual.commands``.

Each line of the input is a JSON object with ``words``, ``environment`` and ``printed``, the file for what the command
prints. The answer is its exit status, on a line.
"""

from __future__ import annotations

import json
import os
import sys

from fleet.cli import main, manage


def serve() -> None:
    _warm()
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(**asked)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _warm() -> None:
    """Have cliff look through the installed packages once, and not in every child."""
    dict(main.COMMANDS)["host list"](None, None).get_parser("fleet host list")


def _run(words: list[str], environment: dict[str, str], printed: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(printed, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    sys.exit((main if words[0] == "fleet" else manage).main(words[1:]))


if __name__ == "__main__":
    serve()
