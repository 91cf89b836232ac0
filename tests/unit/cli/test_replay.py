# SPDX-License-Identifier: Apache-2.0
"""``fleet replay`` of a file that is no trace, of a trace with a source, and of the sample."""

from __future__ import annotations

import json
import pathlib
import re
import threading
from concurrent import futures
from typing import Any

import pytest

from fleet import errors, states
from fleet_trial.replaying import traces
from tests.unit.cli import fakes

GOOD = {"trace.txt": "0 a,a,|,\n300 a,|,\n", "flav_map.txt": "1,2 a\n", "lives.txt": "0 U0,C0,|,\n300 C0,|,\n"}
GOOD["v1.interval_map.txt"] = "100 0\n"


def written(directory: pathlib.Path, **changed: str | bytes | None) -> pathlib.Path:
    """A trace and what belongs to it; returns its path. :param changed: by the file's name up to the dot"""
    for name, text in GOOD.items():
        content = changed.get(name.partition(".")[0], text)
        if content is not None:
            (directory / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return directory / "trace.txt"


BAD = [
    ("no trace", {"trace": None}, "trace.txt: No such file or directory"),
    ("no flavors", {"flav_map": None}, "flav_map.txt is not there: name the sizes of the flavors with --flavor-map"),
    ("an image", {"trace": b"\x89PNG\r\n\x00\x00"}, "trace.txt, line 1: it is not a text file"),
    ("other text", {"trace": "To be or not to be,\n"}, "trace.txt, line 1: it is not a time, a space and tokens"),
    ("nothing", {"trace": ""}, "trace.txt: it has no requests"),
    ("quiet only", {"trace": "0 \n300 \n"}, "trace.txt: it has no requests"),
    ("another's flavors", {"trace": "0 z,|,\n"}, "flav_map.txt: it does not name flavour 'z'"),
    ("NaN", {"flav_map": "1,2 a\n1,nan b\n"}, "flav_map.txt, line 2: '1,nan' is not CORES,GB"),
    ("infinity", {"flav_map": "1,inf a\n"}, "flav_map.txt, line 1: '1,inf' is not CORES,GB"),
    ("less than nothing", {"flav_map": "-1,2 a\n"}, "flav_map.txt, line 1: '-1,2' is not CORES,GB"),
    ("no sizes", {"flav_map": "a\n"}, "flav_map.txt, line 1: 'a' is not two words"),
]


@pytest.mark.parametrize(("what", "changed", "told"), BAD, ids=[case[0] for case in BAD])
def test_what_is_no_trace(run, tmp_path: pathlib.Path, what: str, changed: dict, told: str) -> None:
    """One line that names the file, the line, and what is wrong; nothing is sent."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, "-q", "replay", str(written(tmp_path, **changed)))
    assert (1, 1) == (status, len(complaint.splitlines()))
    assert told in complaint
    assert [] == conductor.requests


BAD_LIVES = [
    ("too few", "0 U0,C0,|,\n", "it has not as many lines as the trace"),
    ("an unknown bin", "0 U9,C0,|,\n300 C0,|,\n", "lives.txt, line 1: it has a lifetime that is no U or C"),
    ("no lifetimes", "0 x,y,|,\n300 C0,|,\n", "lives.txt, line 1: it has a lifetime that is no U or C"),
]


@pytest.mark.parametrize(("what", "lives", "told"), BAD_LIVES, ids=[case[0] for case in BAD_LIVES])
def test_what_are_no_lifetimes(run, tmp_path: pathlib.Path, what: str, lives: str, told: str) -> None:
    """As well."""
    path = written(tmp_path, lives=lives)
    status, _, complaint = run(fakes.Conductor(), "-q", "replay", str(path), "--lifetimes", str(tmp_path / "lives.txt"))
    assert (1, True) == (status, told in complaint)


@pytest.mark.parametrize("role", ["trace", "--flavor-map", "--lifetimes", "--interval-map"])
def test_a_device_without_end(run, tmp_path: pathlib.Path, role: str) -> None:
    """It is not read to its end."""
    path = str(written(tmp_path))
    options = {"--lifetimes": str(tmp_path / "lives.txt"), "--interval-map": str(tmp_path / "v1.interval_map.txt")}
    if role != "trace":
        options[role] = "/dev/zero"
    argv = ["/dev/zero" if role == "trace" else path, *(part for option in options.items() for part in option)]
    flavors = ["--flavor-map", str(tmp_path / "flav_map.txt")] if role == "trace" else []
    status, _, complaint = run(fakes.Conductor(), "-q", "replay", *argv, *flavors)
    reason = "it is a device, not a file" if role == "trace" else "it is not a text file"
    assert (1, True) == (status, complaint.startswith("/dev/zero") and reason in complaint)


def test_a_device_in_place_of_a_trace(run) -> None:
    """It is named, and not the files that would be looked for beside it."""
    status, _, complaint = run(fakes.Conductor(), "replay", "/dev/zero")
    assert (1, "/dev/zero: it is a device, not a file\n") == (status, complaint)


def test_the_sample_shows_its_progress(run) -> None:
    """Where standard error is no terminal, some twenty lines say how many requests have ended."""
    status, _, told = run(fakes.Conductor(), "replay", "--sample", "--yes")
    lines = told.splitlines()
    assert 0 == status
    assert 15 < len(lines) < 25
    assert re.fullmatch(r"\d+ of (\d+) requests done", lines[0])
    assert re.fullmatch(r"(\d+) of \1 requests done", lines[-1])
    assert "" == run(fakes.Conductor(), "-q", "replay", "--sample", "--yes")[2]


def test_what_is_deleted_is_counted(run, tmp_path: pathlib.Path) -> None:
    """At the end of a life, and with --delete at the end of all."""
    path = str(written(tmp_path))
    for argv, deleted in (([], 0), (["--delete"], 3), (["--lifetimes", str(tmp_path / "lives.txt"), "--delete"], 3)):
        _, printed, _ = run(fakes.Conductor(), "-q", "replay", path, *argv, "-f", "json")
        assert (3, deleted) == tuple(json.loads(printed)[name] for name in ("placed", "deleted"))


def test_a_trace_says_where_it_is_from(tmp_path: pathlib.Path) -> None:
    """The source is in the first lines of the trace or in a file beside it; otherwise none is printed."""
    path = written(tmp_path)
    assert "" == traces.note(path)
    (tmp_path / "README.md").write_text("# Requests\n\nSource: our own fleet,\nCC BY 4.0.\n\nMore.\n")
    assert "Source: our own fleet, CC BY 4.0." == traces.note(path)
    path.write_text("# Source: a friend's.\n# CC0\n" + GOOD["trace.txt"])
    assert "Source: a friend's. CC0" == traces.note(path)
    assert 2 == len(list(traces.read_requests(path)))


def test_the_sample(run) -> None:
    """The sample needs no other file, and is marked as made up."""
    conductor = fakes.Conductor()
    status, printed, _ = run(conductor, "-q", "replay", "--sample", "--yes", "-f", "json")
    found = json.loads(printed)
    assert 0 == status
    assert found["placed"] == found["instances"] > 100
    assert found["deleted"] > 100
    assert "Made up for this program" in found["attribution"]


@pytest.mark.parametrize("argv", [[], ["--sample", "trace.txt"]])
def test_a_trace_or_the_sample(run, argv: list[str]) -> None:
    """One of them."""
    status, _, complaint = run(fakes.Conductor(), "replay", *argv)
    assert (1, "name a trace, or use --sample\n") == (status, complaint)


class Refusing(fakes.Conductor):
    """It refuses the second request. Later ones wait until the replay sends no more."""

    def __init__(self, is_over: threading.Event) -> None:
        super().__init__()
        self.asked = 0
        self._is_over = is_over

    def create(self, request: dict[str, Any], client_token: str | None = None) -> dict[str, Any]:
        self.asked += 1
        if self.asked == 2:
            over = {"resource": "instances", "quota": 1, "used": 1, "asked": 1}
            raise errors.QuotaExceeded(exceeded=[over], project_id="web")
        if self.asked > 2:
            assert self._is_over.wait(30)
        return super().create(request, client_token)


def test_a_replay_that_fails(run, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The replay sends no more requests, deletes the accepted instances, and prints the failure."""
    is_over, shutdown = threading.Event(), futures.ThreadPoolExecutor.shutdown

    def told(executor: futures.ThreadPoolExecutor, wait: bool = True, cancel_futures: bool = False) -> None:
        shutdown(executor, wait=False, cancel_futures=cancel_futures)
        is_over.set()
        if wait:
            shutdown(executor)

    monkeypatch.setattr(futures.ThreadPoolExecutor, "shutdown", told)
    conductor = Refusing(is_over)
    path = written(tmp_path, trace="".join(f"{300 * number} a,|,\n" for number in range(50)))
    status, _, complaint = run(conductor, "-q", "replay", str(path), "--delete", "--concurrency", "1")
    assert (1, {}) == (status, conductor.instances)
    assert conductor.asked <= 3
    first, second = complaint.splitlines()
    assert "Failed: deleting what was placed" == first
    assert second.startswith("Quota exceeded in project web")


def test_a_build_that_does_not_end_in_time_is_deleted(run, tmp_path: pathlib.Path) -> None:
    conductor = fakes.Conductor(lambda request: states.BUILDING)
    path = written(tmp_path, trace="0 a,|,\n")
    status, printed, _ = run(conductor, "-q", "replay", str(path), "--delete", "--timeout", "1", "-f", "json")
    found = json.loads(printed)
    assert (0, 1, 0, {}) == (status, found["unfinished"], found["deleted"], conductor.instances)
