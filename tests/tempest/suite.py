# SPDX-License-Identifier: Apache-2.0
"""Runs Tempest's tests in their own virtual environment and yields what became of each."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

_LINES = pathlib.Path(__file__).parent / "programs" / "subunit_lines.py"
#: Without the scenarios and the API of other services.
TESTS = r"^tempest\.api\.(compute|volume)\."
SUCCESS, FAIL, SKIP = "success", "fail", "skip"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a test, or of the fixture of a class (``setUpClass (CLASS)``).

    ``reason`` is the traceback of a failure, or why the test was skipped.
    """

    test: str
    status: str
    reason: str

    @property
    def name(self) -> str:
        """Return its name without the list of its attributes."""
        return self.test.partition("[")[0]


def run(venv: pathlib.Path, directory: pathlib.Path, only: str, without: str, workers: int) -> Iterator[Outcome]:
    """Run the tests that ``only`` matches, but those that ``without`` matches. Yield each as it ends.

    :param workers: how many processes
    :param directory: has ``tempest.conf``; what Tempest writes lies beside it
    """
    path = os.pathsep.join([str(venv / "bin"), os.environ.get("PATH", os.defpath)])
    environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "ignore"}
    tempest, workspace = venv / "bin/tempest", directory / "workspace"
    known = ["--workspace-path", directory / "workspaces.yaml"]
    begin = [tempest, "init", workspace, *known]
    subprocess.run(begin, env=environment, check=True, capture_output=True)
    command = [tempest, "run", "--config-file", directory / "tempest.conf", *known, "--subunit"]
    command += ["--regex", only, "--exclude-regex", without, "--concurrency", str(workers)]
    with (
        (directory / "tempest.err").open("wb") as complaints,
        subprocess.Popen(command, cwd=workspace, env=environment, stdout=subprocess.PIPE, stderr=complaints) as tests,
        subprocess.Popen(
            [venv / "bin/python", _LINES], stdin=tests.stdout, stdout=subprocess.PIPE, env=environment
        ) as lines,
    ):
        assert lines.stdout is not None
        for line in lines.stdout:
            yield _outcome(json.loads(line))


def _outcome(found: dict[str, Any]) -> Outcome:
    details: dict[str, str] = found["details"]
    reason = details.get("reason") or details.get("traceback") or "\n".join(details.values())
    return Outcome(found["id"], found["status"], reason)
