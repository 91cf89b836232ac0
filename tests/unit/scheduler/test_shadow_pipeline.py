# SPDX-License-Identifier: Apache-2.0
"""A second configuration decides live requests in the shadow: what is reported, and that no answer changes."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
from typing import Any

import pytest

from fleet import errors
from fleet.context import new_context
from fleet.rpc.notifier import Silence
from scheduler.compute.drivers import driver_loading, shadow
from scheduler.compute.drivers.filter_scheduler import FilterScheduler
from tests import factories
from tests.clock import FakeClock
from tests.factories import uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.test_host_manager import FakeFeed


def _scheduler(tmp_path: pathlib.Path, shadow: str | None, share: float = 1.0, *files: pathlib.Path) -> FilterScheduler:
    """A scheduler over three hosts with 4, 3 and 2 GB of free memory; ``shadow`` is the other configuration."""
    conf = configuration(*files)
    if shadow is not None:
        path = tmp_path / "candidate.conf"
        path.write_text(shadow)
        conf.set_override("config_file", str(path), "shadow")
        conf.set_override("share", share, "shadow")
        conf.set_override("report_file", str(tmp_path / "report.json"), "shadow")
    nodes = [factories.node(f"h{number}", memory_mb=8192, memory_mb_used=4096 + 1024 * number) for number in range(3)]
    feeds = [FakeFeed(factories.changes(nodes, full=True)), FakeFeed()]
    made = driver_loading.build_driver(conf, lambda: feeds.pop(0), Silence(), FakeClock())
    assert isinstance(made, FilterScheduler)
    return made


def _place(scheduler: FilterScheduler, number: int, **sizes: Any) -> str:
    request = dataclasses.replace(factories.request(sizes), instance_uuids=(uuid(number),))
    try:
        return scheduler.select_destinations(new_context(), request)[0].host
    except errors.NoValidHost as refusal:
        return refusal.reason_code.value


def _report(scheduler: FilterScheduler, tmp_path: pathlib.Path) -> dict[tuple[str, str], int]:
    scheduler._shadow._ledger.save()
    found = json.loads((tmp_path / "report.json").read_text())
    return {(each["kind"], each["reason"]): each["count"] for each in found["sums"]}


_ISOLATED = "[DEFAULT]\nscheduler_default_filters = IsolatedHostsFilter\nisolated_hosts = "


@pytest.mark.parametrize(
    ("shadow", "outcome"),
    [
        ("[DEFAULT]\n", ("same", "")),
        ("[DEFAULT]\nram_weight_multiplier = -1.0\n", ("fits", "")),
        (f"{_ISOLATED}h0\n", ("dropped", "IsolatedHostsFilter")),
        (f"{_ISOLATED}h0,h1,h2\n", ("refused in the shadow", "IsolatedHostsFilter")),
    ],
)
def test_outcomes(tmp_path: pathlib.Path, shadow: str, outcome: tuple[str, str]) -> None:
    """The instance's own booking does not count against its host in the shadow."""
    scheduler = _scheduler(tmp_path, shadow)
    assert "h0" == _place(scheduler, 1)
    assert {outcome: 1} == _report(scheduler, tmp_path)


@pytest.mark.parametrize(
    ("shadow", "kind"),
    [("[DEFAULT]\nscheduler_default_filters = ComputeFilter\n", "placed in the shadow only"), ("", "both refused")],
)
def test_a_request_that_is_refused(tmp_path: pathlib.Path, shadow: str, kind: str) -> None:
    """Is decided in the shadow as well: a configuration may place more."""
    scheduler = _scheduler(tmp_path, shadow)
    assert "NEVER_FITS" == _place(scheduler, 1, memory_mb=100_000)
    assert [kind] == [found for found, _reason in _report(scheduler, tmp_path)]


def test_answers_are_the_same_with_and_without(tmp_path: pathlib.Path) -> None:
    """Over 20 random histories of requests, of which some are repeated, some are refused, and some are for several."""
    for seed in range(20):
        plain, shadowed = (
            _scheduler(tmp_path, None),
            _scheduler(tmp_path, "[DEFAULT]\nram_weight_multiplier = -1.0\n", 0.5),
        )
        chance = random.Random(seed)
        for _request in range(15):
            number, memory_mb = chance.randrange(8), chance.choice([128, 512, 1024, 9000])
            answers = {_place(each, number, memory_mb=memory_mb) for each in (plain, shadowed)}
            assert 1 == len(answers), f"seed {seed}"
            assert plain.host_manager.counts() == shadowed.host_manager.counts()


def test_several_instances_are_left_out(tmp_path: pathlib.Path) -> None:
    scheduler = _scheduler(tmp_path, "")
    request = factories.request(count=2)
    scheduler.select_destinations(new_context(), request)
    scheduler._shadow._ledger.save()
    assert not (tmp_path / "report.json").exists()


def test_a_shadow_that_fails_harms_no_request(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = _scheduler(tmp_path, "")
    monkeypatch.setattr(scheduler._shadow._decider, "survey", lambda *_args: 1 / 0)
    assert "h0" == _place(scheduler, 1)
    assert "The shadow could not decide a request" in caplog.text


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("nonsense", "parse"), ("[DEFAULT]\nscheduler_default_filters = NoSuchFilter\n", "NoSuchFilter")],
)
def test_a_wrong_configuration_harms_no_request(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, text: str, wrong: str
) -> None:
    """The scheduler decides without it. The log and the check name the option, the file and the mistake."""
    scheduler = _scheduler(tmp_path, text)
    assert "h0" == _place(scheduler, 1)
    (logged,) = [each.message for each in caplog.records if each.levelname == "ERROR"]
    with pytest.raises(errors.ConfigError) as refused:
        shadow.check(scheduler.conf)
    for told in (logged, str(refused.value)):
        assert f"Option [shadow] config_file is {tmp_path}/candidate.conf: " in told
        assert wrong in told


def test_sighup_reaches_the_shadow(tmp_path: pathlib.Path) -> None:
    """It differs from the scheduler in what its own file says, and in nothing else."""
    own = tmp_path / "fleet.conf"
    own.write_text("[DEFAULT]\nscheduler_default_filters = ComputeFilter\n")
    scheduler = _scheduler(tmp_path, "[DEFAULT]\n", 1.0, own)
    assert "h0" == _place(scheduler, 1)
    own.write_text(f"{_ISOLATED}h0\n")
    scheduler.conf.mutate_config_files()
    assert "h1" == _place(scheduler, 2)
    (tmp_path / "candidate.conf").write_text("[DEFAULT]\nisolated_hosts = h2\n")
    scheduler.conf.mutate_config_files()
    assert "h2" == _place(scheduler, 3)
    assert {("same", ""): 2, ("dropped", "IsolatedHostsFilter"): 1} == _report(scheduler, tmp_path)


def test_a_host_is_dropped_when_all_its_nodes_are(tmp_path: pathlib.Path) -> None:
    nodes = [factories.node("h1", name, memory_mb=memory_mb) for name, memory_mb in (("n1", 4096), ("n2", 512))]
    feeds = [FakeFeed(factories.changes(nodes, full=True)), FakeFeed()]
    made = driver_loading.build_driver(configuration(), lambda: feeds.pop(0), Silence(), FakeClock())
    assert isinstance(made, FilterScheduler)
    made.host_manager.refresh()
    first, second = (
        made._decider.survey(new_context(), factories.request(sizes))[1] for sizes in ({}, {"memory_mb": 8192})
    )
    assert ("", "RamFilter") == (first.of("h1"), second.of("h1"))
    assert first.nodes is second.nodes
    assert 2 * len(second.nodes) == second.judged.nbytes


def test_a_host_that_the_request_excludes_and_one_that_is_not_known(tmp_path: pathlib.Path) -> None:
    scheduler = _scheduler(tmp_path, "[DEFAULT]\n")
    scheduler.host_manager.refresh()
    asked = dataclasses.replace(factories.request(), ignore_hosts=("h1",))
    found = scheduler._decider.survey(new_context(), asked)[1]
    assert ["", "excluded by the request", "not known here"] == [found.of(host) for host in ("h0", "h1", "h9")]
