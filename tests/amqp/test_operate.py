# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of running daemons: health, metrics, reload, a report on demand."""

from __future__ import annotations

import json
import signal

import pytest
import requests
import sqlalchemy as sa

from tests.amqp.daemons import Trio, eventually


@pytest.fixture
def operated(trio: Trio, health_port: int) -> tuple[Trio, int]:
    """The conductor's two workers have the first two ports, then the scheduler, then the first agent."""
    return trio, health_port


def page(port: int, path: str) -> requests.Response:
    return requests.get(f"http://127.0.0.1:{port}{path}", timeout=5)


def test_every_worker_is_ready(operated: tuple[Trio, int]) -> None:
    """Each has been through the broker, and the database where it has one; its clock is right."""
    _trio, first = operated
    for port in range(first, first + 4):
        eventually(lambda port=port: page(port, "/healthz/ready").status_code == 200, retry_on=requests.ConnectionError)
    parts = [sorted(page(port, "/healthz").json()["parts"]) for port in range(first, first + 4)]
    with_database, agent = ["broker", "clock", "database"], ["broker", "clock"]
    assert [with_database, with_database, with_database, agent] == parts


def worker(first: int) -> float:
    """The start time of the scheduler's worker, which distinguishes it from a later one."""
    return number(page(first + 2, "/metrics").text, "process_start_time_seconds")


def number(text: str, name: str) -> float:
    """The number in one line of a metrics page; 0 if the line does not exist yet."""
    return sum(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name + " "))


def test_numbers_tell_of_a_build(operated: tuple[Trio, int]) -> None:
    """One build is placed and one refused for its size: decisions, the dropping filter and the results are counted."""
    trio, first = operated
    names = [
        'fleet_scheduler_decisions_total{reason="",result="placed"}',
        'fleet_scheduler_decisions_total{reason="NEVER_FITS",result="refused"}',
        'fleet_scheduler_filter_rejections_total{filter="RamFilter"}',
        'fleet_conductor_builds_ended_total{reason="",state="active"}',
        'fleet_conductor_builds_ended_total{reason="NEVER_FITS",state="error"}',
    ]

    def numbers() -> list[float]:
        text = "".join(page(port, "/metrics").text for port in range(first, first + 4))
        return [number(text, name) for name in names]

    before = numbers()
    trio.wait_for(trio.boot(), "active")
    trio.wait_for(trio.boot(flavor={"vcpus": 1, "memory_mb": 10_000_000}), "error")
    # A decision, and the end of a build, are counted after they can be seen.
    eventually(lambda: [1, 1, 6, 1, 1] == [after - then for after, then in zip(numbers(), before, strict=True)])


def test_a_hangup_changes_the_weights_in_place(operated: tuple[Trio, int]) -> None:
    """The option is logged old and new, the next decision uses it, and no process is restarted."""
    trio, first = operated
    config, pid = trio.config_file.read_text(), worker(first)
    trio.configure(config.replace("[DEFAULT]\n", "[DEFAULT]\nram_weight_multiplier = -2.5\n", 1))
    trio.reload("scheduler")
    said = "Option DEFAULT.ram_weight_multiplier changed from [None] to [-2.5]"
    # The launcher says so, and the worker, each of which reads the file: it must stay until both have.
    eventually(lambda: trio.log("scheduler").count(said) >= 2)
    trio.configure(config)
    # The option is logged before the weighers are made anew with it.
    eventually(
        lambda: '"multiplier": -2.5' in trio.cli("explain", "--flavor", "vcpus=1,memory_mb=512", "-f", "json").stdout
    )
    assert pid == worker(first)


def test_a_bad_file_is_refused_and_the_daemon_goes_on(operated: tuple[Trio, int]) -> None:
    """An ERROR that names the value; builds go on with what was in use."""
    trio, first = operated
    good, pid = trio.config_file.read_text(), worker(first)
    trio.configure(good.replace("[DEFAULT]\n", "[DEFAULT]\nscheduler_host_subset_size = many\n", 1))
    trio.reload("scheduler")
    # By the launcher and by the worker.
    eventually(lambda: trio.log("scheduler").count("SIGHUP: the configuration is refused") >= 2)
    trio.configure(good)
    trio.wait_for(trio.boot(), "active")
    assert pid == worker(first)


def test_a_report_on_demand_hides_secrets(operated: tuple[Trio, int]) -> None:
    """SIGUSR2 prints threads and configuration to the log; the database's password is not in it."""
    trio, _first = operated
    trio.signal("scheduler", signal.SIGUSR2)
    # The configuration comes last. Part of a report may be in the log while the rest is being written.
    report = eventually(lambda: log if "connection = ***" in (log := trio.log("scheduler")) else "")
    assert trio.is_running("scheduler")
    trio.wait_for(trio.boot(), "active")
    password = sa.make_url(trio.database_url).password
    assert "Guru Meditation" in report
    assert "Thread" in report
    assert password is None or password not in report


def test_top_shows_what_is_going_on(operated: tuple[Trio, int]) -> None:
    """One look, as an object: all daemons that were named, the queues of the broker."""
    trio, first = operated
    pages = [part for port in range(first, first + 4) for part in ("--page", f"127.0.0.1:{port}")]
    for port in range(first, first + 4):
        # The number is set at the watchdog's next look.
        eventually(
            lambda port=port: number(page(port, "/metrics").text, "fleet_ready") == 1,  # type: ignore[misc]
            retry_on=requests.ConnectionError,
        )
    ran = trio.cli("top", *pages, "--interval", "1", "--count", "1", "-f", "json")
    shown = json.loads(ran.stdout)
    assert (4, 4, {}) == (shown["daemons"], shown["ready"], shown["missing"]), ran.stderr
    expected = dict.fromkeys(("conductor", "scheduler", "volume_conductor", "volume_scheduler"), 0)
    assert expected == shown["queues"]
    nobody = trio.cli("top", "--url", "127.0.0.1:1", "--count", "1", "--interval", "1")
    assert (1, "no metrics can be read: http://127.0.0.1:1/metrics: no answer\n") == (
        nobody.returncode,
        nobody.stderr,
    )
