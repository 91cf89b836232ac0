# SPDX-License-Identifier: Apache-2.0
"""Request traces in all documented forms."""

from __future__ import annotations

import pathlib

import pytest

from fleet_trial.replaying import traces
from fleet_trial.replaying.traces import TraceRequest

FOR_EVER = None


@pytest.fixture
def write(tmp_path: pathlib.Path):
    def write_file(name: str, text: str) -> pathlib.Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write_file


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("0 a,|,", [("a", 1, 0)], id="one token is one request"),
        pytest.param("0 a,a,a,|,", [("a", 3, 0)], id="equal tokens of a batch are one request"),
        pytest.param("0 a,b,b,|,", [("a", 1, 0), ("b", 2, 0)], id="another flavor is another request"),
        pytest.param("0 a,|,a,|,", [("a", 1, 0), ("a", 1, 0)], id="another batch is another request"),
        pytest.param("0 a,|,\n9 b,|,", [("a", 1, 0), ("b", 1, 300)], id="a line is five minutes"),
        pytest.param("0 a,a", [("a", 2, 0)], id="the last batch may lack its end"),
        pytest.param("0 ", [], id="a quiet five minutes"),
    ],
)
def test_requests(write, lines: str, expected: list[tuple[str, int, int]]) -> None:
    """Batches, flavors and lines divide the tokens into requests."""
    found = traces.read_requests(write("trace", lines))
    assert expected == [(each.flavor, each.count, each.at_s) for each in found]


def test_lifetimes(write) -> None:
    """A bin stands for the middle of its seconds; a life that outlasts the trace has no end."""
    bins = traces.read_bins(write("bins", "0 0\n300 1\n600 1\n900 1\n"))
    requests = traces.read_requests(write("trace", "0 a,a,|,b,|,"), write("lives", "0 U0,C1,|,U1,|,"), bins)
    assert [TraceRequest(0, "a", (0.0, FOR_EVER)), TraceRequest(0, "b", (600.0,))] == list(requests)


def test_lifetimes_of_another_trace_are_refused(write) -> None:
    """Lifetimes that do not match token by token are named with their line."""
    with pytest.raises(traces.BadTrace, match="lives, line 1: 3 requests but 2 lifetimes"):
        list(traces.read_requests(write("trace", "0 a,a,|,"), write("lives", "0 U0,|,"), {0: 0.0}))


def test_flavors(write) -> None:
    """Cores and GB become CPUs and MB; the disk, which the trace lacks, is given."""
    flavors = traces.read_flavors(write("flavors", "1,0.75 a\n16,112 d\n"), disk_gb=5)
    assert {
        "a": {"vcpus": 1, "memory_mb": 768, "root_gb": 5},
        "d": {"vcpus": 16, "memory_mb": 114688, "root_gb": 5},
    } == flavors
