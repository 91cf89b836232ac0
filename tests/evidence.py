# SPDX-License-Identifier: Apache-2.0
"""What the report of a failed test says beside its traceback, so that it can be judged from the log alone.

It names the seed and the process of the run, and ends with the last lines of the logs of daemons and servers that the test
used. A fixture that starts some calls :func:`watch`.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from tests import seeds

#: Lines of each log, and bytes of each line.
LINES, LENGTH = 25, 400
_WATCHED: list[Callable[[], Iterable[pathlib.Path]]] = []


@contextlib.contextmanager
def watch(logs: Callable[[], Iterable[pathlib.Path]]) -> Iterator[None]:
    """Show the ends of these files in the report of every test that fails meanwhile."""
    _WATCHED.append(logs)
    try:
        yield
    finally:
        _WATCHED.remove(logs)


def add_to(report: pytest.TestReport) -> None:
    """Add the sections to the report of a failed test."""
    process = os.environ.get("PYTEST_XDIST_WORKER") or os.environ.get("FLEET_TEST_PROCESS") or "main"
    seed = seeds.of_run()
    repeat = f"{seeds.VARIABLE}={seed} python -m pytest '{report.nodeid}'"
    report.sections.append(("run", f"seed {seed}, process {process}; alone: {repeat}"))
    for path in sorted({path for logs in _WATCHED for path in logs()}):
        report.sections.append((f"last lines of {path.name}", end_of(path)))


def sendable(found: Any) -> Any:
    """Return a part of a report without halves of surrogate pairs: a process that has one to send ends."""
    if isinstance(found, str):
        return found.encode(errors="backslashreplace").decode()
    if isinstance(found, dict):
        return {key: sendable(value) for key, value in found.items()}
    if isinstance(found, list | tuple):
        return type(found)(map(sendable, found))
    return found


def end_of(path: pathlib.Path) -> str:
    """Return the last lines of a log."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError as failure:
        return f"cannot be read: {failure.strerror}"
    return "\n".join(line[:LENGTH] for line in lines[-LINES:]) or "empty"
