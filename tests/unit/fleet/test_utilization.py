# SPDX-License-Identifier: Apache-2.0
"""Figures of a fleet at one moment and over time, and their drawings."""

from __future__ import annotations

import pathlib
import sys
from xml.etree import ElementTree

import numpy
import pytest

from fleet.objects.flavor_mix import Shape
from fleet.utilization import plot
from fleet.utilization.history import REQUESTS, SAMPLES, SECONDS, History, PoolHistory
from fleet.utilization.pools import Pools
from fleet.utilization.sample import Hosts, measure, use_of

SMALL, LARGE = Shape(1, 1024), Shape(8, 8192)


def hosts(*free: tuple[float, float], total: tuple[float, float] = (16, 16384)) -> Hosts:
    """Hosts of one size with so many vcpus and MB free, no ratios, and disk without end."""
    vcpus, memory_mb = numpy.array(free, dtype=float).T
    return Hosts(
        vcpus_used=total[0] - vcpus,
        memory_mb_used=total[1] - memory_mb,
        free=(vcpus, memory_mb, numpy.full(len(free), 1e9)),
        instances=numpy.where(vcpus == total[0], 0, 1),
    )


@pytest.mark.parametrize(
    ("free", "expected"),
    [
        pytest.param([(16, 16384)], (0.0, 0.0, LARGE), id="an empty host takes both sizes"),
        # The large size does not fit; half of the requests are for it: 4 × 0.5, 16384 × 0.5.
        pytest.param([(4, 16384)], (2.0, 8192.0, SMALL), id="too few vcpus for the large size"),
        # Neither fits on the second host: 6 × 0.5 + 6 × 0.5.
        pytest.param([(8, 8192), (6, 512)], (6.0, 512.0, LARGE), id="no memory for any size"),
        pytest.param([(0, 0)], (0.0, 0.0, None), id="what is full is not stranded"),
        pytest.param([(-4, -100)], (0.0, 0.0, None), id="nor is what is over its limit"),
    ],
)
def test_what_the_next_request_cannot_use(free: list, expected: tuple) -> None:
    """Two sizes, requested equally often."""
    found = measure(0.0, hosts(*free), {SMALL: 0.5, LARGE: 0.5}, 0, 0)
    assert expected == (found.stranded_vcpus, found.stranded_memory_mb, found.largest)


def test_shares_of_the_fleet() -> None:
    """12 of 32 vcpus and 8 of 32 GB are used; one of two hosts is empty."""
    found = measure(0.0, hosts((4, 8192), (16, 16384)), {SMALL: 1.0}, 3, 1)
    assert (0.375, 0.25, 1) == (found.vcpus_used, found.memory_used, found.hosts_empty)
    assert [{"host": "a", "used": 0.75}, {"host": "b", "used": 0.0}] == use_of(
        ["a", "b"], hosts((4, 8192), (16, 16384))
    )


def test_a_sample_is_what_was_true_at_its_moment() -> None:
    """The host is full from second 50 to the end at 199; the samples are one second apart."""
    history = History(SECONDS, 0, 199, {SMALL: 1})
    assert history.due(50)
    history.add(50, hosts((16, 16384)), 0, 0)
    assert not history.due(50)
    history.add(199, hosts((0, 0)), 16, 0)
    history.finish(["a"], hosts((0, 0)), 16, 1)
    samples = history.figures()["over_time"]["samples"]
    assert [0.0] * 50 + [1.0] * 150 == [each["vcpus_used"] for each in samples]
    assert (SAMPLES, 199, 1) == (len(samples), samples[-1]["at"], samples[-1]["refused"])


def test_without_time_there_is_the_end() -> None:
    history = History(REQUESTS, 0, 0, {})
    history.finish(["a"], hosts((16, 16384)), 0, 0)
    assert 1 == len(history.figures()["over_time"]["samples"])
    assert "0 of 16 free (0.0 %)" == history.figures()["stranded_vcpus"]


def scenario(share: float) -> dict:
    history = History(SECONDS, 0, 7200, {SMALL: 3, LARGE: 1})
    history.add(7200, hosts((16, 16384), (16 * (1 - share), 16384)), 2, 1)
    history.finish(["h1", "h2"], hosts((16, 16384), (16 * (1 - share), 16384)), 2, 1)
    return history.figures()


def test_a_drawing_of_pools(tmp_path: pathlib.Path) -> None:
    """With what is promised, in place of what hosts use."""
    pools = Pools(*(numpy.array([amount]) for amount in (100.0, 150.0, 50.0)), empty=0)
    history = PoolHistory(SECONDS, 0, 7200)
    history.add(7200, pools, 2, 1)
    history.finish(["m1@a#p"], pools, 2, 1)
    plot.draw(tmp_path / "plot.svg", {"now": history.figures()})
    text = (tmp_path / "plot.svg").read_text()
    for said in ("Promised to volumes", "Largest thin volume that fits", "1 pools at the end: now"):
        assert f"<!-- {said}" in text


@pytest.mark.parametrize("ending", plot.ENDINGS)
@pytest.mark.parametrize("names", [["replay"], ["now", "what if"]])
def test_a_drawing(tmp_path: pathlib.Path, ending: str, names: list[str]) -> None:
    """It is a file of its ending's format, in which every scenario has a map."""
    path = tmp_path / f"plot{ending}"
    plot.draw(path, {name: scenario(number / 2) for number, name in enumerate(names)})
    if ending == ".png":
        assert path.read_bytes().startswith(b"\x89PNG")
        return
    text = path.read_text()
    ElementTree.fromstring(text)
    for said in ("Used", "Empty hosts", "hours", *(f"2 hosts at the end: {name}" for name in names)):
        assert f"<!-- {said}" in text


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the extra."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(plot.NotInstalled, match=r"pip install '\.\[plot\]' in the"):
        plot.require()


def test_use_is_a_share_of_limits() -> None:
    """A host of 16 vcpus that sells 64 is full at 64; and one above its limit is above 1."""
    sold = Hosts(
        vcpus_used=numpy.array([32.0, 72.0]),
        memory_mb_used=numpy.array([512.0, 512.0]),
        free=(numpy.array([32.0, -8.0]), numpy.array([1536.0, 1536.0]), numpy.full(2, 1e9)),
        instances=numpy.array([1, 1]),
    )
    assert [0.5, 1.125] == [each["used"] for each in use_of(["a", "b"], sold)]
    found = measure(0.0, sold, {}, 2, 0)
    assert (0.8125, 0.25) == (found.vcpus_used, found.memory_used)
