# SPDX-License-Identifier: Apache-2.0
"""``fleet replay --volumes``: traces of volumes, and the sample."""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

import pytest

from tests.unit.cli import fakes

FULL = {"error": "NoValidHost", "details": {"reason_code": "CAPACITY"}}


class Backends(fakes.Conductor):
    """Volumes are made at once on a pool of ``room`` GiB; the others are refused."""

    def __init__(self, room: int = 1000) -> None:
        super().__init__()
        self.room, self.volumes = room, dict[str, dict[str, Any]]()

    def ask(self, method: str, **arguments: Any) -> Any:
        if method == "create_volumes":
            wanted = arguments["request"]
            fits = wanted["size"] <= self.room - sum(each["size"] for each in self.volumes.values())
            made = {"uuid": str(uuid.uuid4()), **wanted, "status": "available", "failure": None}
            made |= {"host": "m1@a#p"} if fits else {"host": None, "status": "error", "failure": FULL, "size": 0}
            self.volumes[made["uuid"]] = made
            return {"volumes": [made], "warnings": []}
        if method == "list_volumes":
            return [self.volumes[each] for each in arguments["filters"]["uuids"] if each in self.volumes]
        if method == "delete_volume":
            return self.volumes.pop(arguments["name"])
        if method == "list_pools":
            held = sum(each["size"] for each in self.volumes.values())
            rule = {"reserved_percentage": 0, "over_subscription": 1.0}
            here = {"name": "m1@a#p", "total_capacity_gb": float(self.room), "provisioned_capacity_gb": held}
            there = {"name": "m2@b#p", "total_capacity_gb": None, "provisioned_capacity_gb": 0}
            return [
                {**here, **rule, "total_volumes": len(self.volumes)},
                {**there, **rule, "total_volumes": 0},
            ]
        return super().ask(method, **arguments)


BAD = [
    ("no file", None, "volumes.txt: No such file or directory"),
    ("nothing", "# Mine.\n", "volumes.txt: it has no requests"),
    ("other text", "0 1\nto be or not\n", "volumes.txt, line 2: 'to be or not' is not SECONDS GIB [TYPE [LIFETIME]]"),
    ("a word more", "0 1 - - -\n", "line 1: '0 1 - - -' is not SECONDS GIB"),
    ("no size", "0\n", "line 1: '0' is not SECONDS GIB"),
    ("a fraction", "0 1.5\n", "line 1: '0 1.5' is not SECONDS GIB"),
    ("another alphabet's digit", "0 \u0661\n", "is not SECONDS GIB"),
    ("less than a GiB", "0 0\n", "line 1: the size must be from 1 to 16777216 GiB, got 0"),
    ("backwards", "60 1\n0 1\n", "line 2: 0 s is before 60 s, the time of the line above"),
]


@pytest.mark.parametrize(("what", "text", "told"), BAD, ids=[case[0] for case in BAD])
def test_what_is_no_trace(run, tmp_path: pathlib.Path, what: str, text: str | None, told: str) -> None:
    """One line that names the file, the line, and what is wrong; nothing is sent."""
    path, conductor = tmp_path / "volumes.txt", Backends()
    if text is not None:
        path.write_text(text)
    status, _, complaint = run(conductor, "-q", "replay", "--volumes", str(path))
    assert (1, 1, True) == (status, len(complaint.splitlines()), told in complaint)
    assert {} == conductor.volumes


@pytest.mark.parametrize("option", ["--disk", "--lifetimes", "--flavor-map", "--interval-map"])
def test_an_argument_of_instances(run, option: str) -> None:
    """It is named."""
    status, _, complaint = run(Backends(), "-q", "replay", "--volumes", "--sample", "--yes", option, "1")
    assert (1, f"{option} is not for volumes\n") == (status, complaint)


def test_the_sample(run) -> None:
    """Volumes whose life is over are deleted, and at the end the others, too, if that is asked for."""
    conductor = Backends()
    status, printed, _ = run(conductor, "-q", "replay", "--volumes", "--sample", "--yes", "--keep", "-f", "json")
    found = json.loads(printed)
    assert (0, 60, 60, 0) == (status, found["volumes"], found["placed"], found["refused"])
    assert 0 < found["deleted"] < 60
    assert 60 == found["deleted"] + len(conductor.volumes)
    assert "Made up for this program" in found["attribution"]
    run(conductor, "-q", "replay", "--volumes", "--sample", "--yes", "--delete")
    assert 60 == found["deleted"] + len(conductor.volumes)


def test_refusals_are_counted(run, tmp_path: pathlib.Path) -> None:
    """By reason and by size, with the hours that were not placed. The third volume takes the space of the first."""
    path = tmp_path / "volumes.txt"
    path.write_text("0 6 fast 1800\n0 6 fast\n3600 6\n3600 7 - 1\n")
    _, printed, _ = run(Backends(10), "-q", "replay", "--volumes", str(path), "--concurrency", "1", "-f", "json")
    found = json.loads(printed)
    assert (2, 2, 1) == (found["placed"], found["refused"], found["deleted"])
    assert {"NoValidHost: CAPACITY": 2} == found["refused_by_reason"]
    assert {"6 GiB of type fast": 1, "7 GiB": 1} == found["refused_by_size"]
    assert (9.0, 3.0, "6 of 10 (60.0 %)") == (
        found["gb_hours_asked"],
        found["gb_hours_placed"],
        found["provisioned_gb"],
    )


@pytest.mark.parametrize("life", [" - 100", ""], ids=["with times", "without times"])
def test_the_pools_over_time(run, tmp_path: pathlib.Path, life: str) -> None:
    """Of 10 GiB: 6 are taken, 8 more do not fit, and with times the first volume is gone when the last one comes."""
    path, plot = tmp_path / "volumes.txt", tmp_path / "plot.svg"
    path.write_text(f"0 6{life}\n50 8{life}\n200 3{life}\n")
    asked = ["--concurrency", "1", "--plot", str(plot), "-f", "json"]
    status, printed, _ = run(Backends(10), "-q", "replay", "--volumes", str(path), *asked)
    found = json.loads(printed)["over_time"]
    told = [(each["provisioned"], each["pools_empty"], each["placed"], each["refused"]) for each in found["samples"]]
    assert (0, (0.3 if life else 0.9, 1, 2, 1)) == (status, told[-1])
    assert (0.6, 1, 1, 0) == told[0] if life else (0.6, 1, 1, 0) in told
    assert ("seconds" if life else "requests") == found["axis"]
    assert "1 pools at the end: replay" in plot.read_text()
