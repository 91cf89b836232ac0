# SPDX-License-Identifier: Apache-2.0
"""What ``fleet top`` makes of two looks at the daemons' metrics."""

from __future__ import annotations

import io
import itertools
import pathlib
import types
from collections.abc import Callable, Mapping, Sequence

import pytest
import requests

from fleet_cli.health import metric_pages, top
from fleet_cli.health.metric_pages import Change
from tests.clock import Time
from tests.unit.cli import fakes

CONDUCTOR, SCHEDULER = "http://c:1/metrics", "http://s:1/metrics"
BEFORE = {
    CONDUCTOR: "fleet_ready 1\nfleet_conductor_builds_accepted_total 10\n"
    'fleet_conductor_builds{step="spawning"} 2\nfleet_conductor_oldest_build_seconds 3\n',
    SCHEDULER: 'fleet_ready 1\nfleet_scheduler_decisions_total{reason="",result="placed"} 100\n'
    "fleet_scheduler_decision_seconds_count 100\nfleet_scheduler_decision_seconds_sum 1\n"
    'fleet_scheduler_filter_seconds_total{filter="RamFilter"} 1\nfleet_scheduler_filter_seconds_total{filter="Mine"} 1\n',
}
AFTER = {
    CONDUCTOR: "fleet_ready 0\nfleet_conductor_builds_accepted_total 30\n"
    'fleet_conductor_builds{step="spawning"} 7\nfleet_conductor_oldest_build_seconds 5\n'
    'fleet_rpc_timeouts_total{method="explain"} 4\n',
    SCHEDULER: 'fleet_ready 1\nfleet_scheduler_decisions_total{reason="",result="placed"} 110\n'
    'fleet_scheduler_decisions_total{reason="CAPACITY",result="refused"} 10\n'
    "fleet_scheduler_decision_seconds_count 120\nfleet_scheduler_decision_seconds_sum 1.1\n"
    'fleet_scheduler_filter_seconds_total{filter="RamFilter"} 1.02\n'
    'fleet_scheduler_filter_seconds_total{filter="Mine"} 1.06\n',
}


def a_change(before: Mapping[str, str] = BEFORE, after: Mapping[str, str] = AFTER, seconds: float = 2.0) -> Change:
    """Two looks, ``seconds`` apart, at pages of these texts."""

    def get(texts: Mapping[str, str], url: str) -> str:
        if url not in texts:
            raise requests.ConnectionError("refused")
        return texts[url]

    clock = itertools.count(0.0, seconds)
    looks = [
        metric_pages.look([CONDUCTOR, SCHEDULER], lambda: next(clock), lambda url, texts=texts: get(texts, url))
        for texts in (before, after)
    ]
    return Change(*looks)


def test_rates_and_means_are_of_the_time_between() -> None:
    """20 accepted, 10 placed and 10 refused in 2 s; 0.1 s for 20 decisions."""
    shown = top.view(a_change(), {"conductor": 3})
    assert (2, 1, {}) == (shown["daemons"], shown["ready"], shown["missing"])
    assert 10.0 == shown["builds"]["accepted"]
    assert (5.0, 5.0) == (shown["decisions"]["placed"], shown["decisions"]["refused"])
    assert pytest.approx(0.005) == shown["decisions"]["mean_s"]
    assert {"CAPACITY": 5.0} == shown["refusals"]
    assert (7, 5) == (shown["under_way"]["spawning"], shown["under_way"]["oldest_s"])
    assert {"RPC timeouts": {"explain": 2.0}} == shown["trouble"]


def test_volumes_and_pools() -> None:
    """They are shown if there are pools: rates, steps, and the space of all pools."""
    text = (
        'fleet_conductor_volumes_accepted_total {}\nfleet_conductor_volumes{{step="working"}} 3\n'
        'fleet_conductor_volume_reports_total{{status="creating",result="done"}} {}\nfleet_conductor_pools 2\n'
        'fleet_conductor_oldest_volume_seconds 5\nfleet_conductor_pool_gigabytes{{kind="free"}} 70\n'
    )
    shown = top.view(a_change({CONDUCTOR: text.format(0, 0)}, {CONDUCTOR: text.format(8, 6)}), None)
    assert (4.0, 3.0, 3) == tuple(shown["volumes"][name] for name in ("accepted", "made", "working"))
    lines = [line for line in top.lines(shown) if line.startswith(("volumes", "pools"))]
    expected = [
        "volumes    accepted 4.0, made 3.0, failed 0.0; scheduling -, placing -, working 3, copying -, removing -, "
        "oldest 5.0 s",
        "pools      2; GiB total -, free 70, allocated -",
    ]
    assert expected == lines
    assert not [line for line in top.lines(top.view(a_change(), None)) if line.startswith(("volumes", "pools"))]


def test_the_slowest_filter_is_first() -> None:
    """By its time, which is shown per decision: 0.06 s for 20."""
    filters = top.view(a_change(), None)["filters"]
    assert ["Mine", "RamFilter"] == [each["filter"] for each in filters]
    assert pytest.approx(0.003) == filters[0]["seconds"]


PAGES = [
    ("a daemon started again counts from nothing", {CONDUCTOR: "fleet_conductor_builds_accepted_total 4\n"}, 2.0),
    ("a daemon that is gone counts for nothing", {SCHEDULER: AFTER[SCHEDULER]}, 0.0),
]


@pytest.mark.parametrize(("what", "after", "accepted"), PAGES, ids=[case[0] for case in PAGES])
def test_daemons_come_and_go(what: str, after: dict[str, str], accepted: float) -> None:
    """Without numbers that never were."""
    assert accepted == top.view(a_change(after=after), None)["builds"]["accepted"]


def test_a_daemon_seen_for_the_first_time_has_no_rate_yet() -> None:
    """What it has counted in its life was not counted in this interval."""
    assert 0.0 == top.view(a_change(before={}), None)["builds"]["accepted"]


def test_what_a_person_reads() -> None:
    """Numbers with their units; a page that cannot be read is named."""
    shown = top.lines(top.view(a_change(after={SCHEDULER: AFTER[SCHEDULER]}), {"conductor": 3, "scheduler": None}))
    assert "1 daemons, 1 ready; per second, over 2.0 s" == shown[0]
    assert f"not seen: {CONDUCTOR}: no answer" == shown[1]
    assert "under way  scheduling -, placing -, spawning -, oldest -, queued -" in shown
    assert "queues     conductor 3, scheduler -" in shown
    assert "decisions  placed 5.0, refused 5.0, failed 0.0, mean 5.00 ms, cache lag -" in shown
    assert "  Mine                               3.00 ms       0.0" in shown


URLS = [
    ("a port", "127.0.0.1:9100", "http://127.0.0.1:9100/metrics"),
    ("a site", "https://h/", "https://h/metrics"),
    ("the page", "http://h:1/x/metrics", "http://h:1/x/metrics"),
]


@pytest.mark.parametrize(("what", "url", "expected"), URLS, ids=[case[0] for case in URLS])
def test_a_page_is_named_as_is_convenient(what: str, url: str, expected: str) -> None:
    """The path may be left out, and so may the scheme."""
    assert expected == metric_pages.page_url(url)


def test_the_pages_of_this_machine(run, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of every daemon and worker that has one, by [health] port; the ports are named if none has."""
    config = tmp_path / "fleet.conf"
    config.write_text("[health]\nport = 9000\nservice_offset = 3\n")
    open_ports: set[int] = set()
    asked: list[Sequence[str]] = []

    def connect(address: tuple[str, int], timeout: float) -> io.StringIO:
        if address[1] not in open_ports:
            raise ConnectionRefusedError
        return io.StringIO()

    def look(urls: Sequence[str], clock: Callable[[], float]) -> metric_pages.Look:
        asked.append(urls)
        return metric_pages.Look(clock(), {url: {} for url in urls}, {})

    monkeypatch.setattr(top, "socket", types.SimpleNamespace(create_connection=connect))
    monkeypatch.setattr(top, "time", Time())
    monkeypatch.setattr(metric_pages, "look", look)
    argv = ["--config-file", str(config), "top", "--count", "1"]
    status, _printed, said = run(fakes.Conductor(), *argv)
    assert (1, []) == (status, asked)
    assert (
        "no daemon shows its metrics on 127.0.0.1, at the ports 9000, 9003, 9006, 9009, 9012: [health] port\n" == said
    )
    open_ports |= {9003, 9004, 9009}
    monkeypatch.setattr(fakes.Conductor, "depths", lambda _self, _queues: None, raising=False)
    assert 0 == run(fakes.Conductor(), *argv)[0]
    assert [f"http://127.0.0.1:{port}/metrics" for port in (9003, 9004, 9009)] == asked[-1]
