# SPDX-License-Identifier: Apache-2.0
"""Tests of the simulated hosts."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re

import pytest

from compute_agent.drivers.base import SpawnFailed
from compute_agent.drivers.fake import FakeDriver
from fleet import errors, states
from fleet.agent import time_limit
from fleet.objects import Image, Instance
from tests.unit.compute_agent import builders


def a_driver(host: str = "host1", **fake: object) -> FakeDriver:
    driver = FakeDriver(builders.a_conf(fake=fake))
    driver.init_host(host)
    return driver


def spawns(driver: FakeDriver, instance: Instance) -> bool:
    try:
        driver.spawn(builders.a_context(), instance, Image())
    except SpawnFailed:
        return False
    return True


def test_failures_depend_on_the_seed_and_not_on_the_order() -> None:
    """The same builds fail again in any order; another seed makes others fail; about the asked share does."""
    instances = [builders.an_instance(node="host1") for _ in range(200)]
    options = {"spawn_failure_rate": 0.3}
    first, second = a_driver(**options), a_driver(**options)
    other = a_driver(seed=1, **options)
    outcome = [spawns(first, instance) for instance in instances]
    again = [spawns(second, instance) for instance in reversed(instances)]
    assert outcome == list(reversed(again))
    assert outcome != [spawns(other, instance) for instance in instances]
    assert 100 < sum(outcome) < 180
    assert sum(outcome) == len(first.list_instance_uuids())


@pytest.mark.parametrize(("host", "expected"), [("bad7", False), ("good7", True)])
def test_named_hosts_always_fail(host: str, expected: bool) -> None:
    """A host that matches failing_hosts spawns nothing."""
    assert expected == spawns(a_driver(host, failing_hosts=["bad*"]), builders.an_instance(node=host))


def test_a_guest_that_exists_is_not_spawned_twice() -> None:
    """The second spawn fails and leaves the first guest alone."""
    driver, instance = a_driver(), builders.an_instance(node="host1")
    assert spawns(driver, instance)
    assert not spawns(driver, instance)
    assert [instance.uuid] == driver.list_instance_uuids()


@pytest.mark.parametrize("is_there", [True, False])
def test_work_that_was_abandoned_leaves_later_guests_alone(is_there: bool) -> None:
    """A rebuild that took too long neither destroys the guest of a later attempt nor makes one of its own."""
    driver, first = a_driver(), builders.an_instance(node="host1", attempt=1)
    second = dataclasses.replace(first, attempt=2)

    def later() -> None:
        if is_there:
            driver.spawn(builders.a_context(), second, Image())

    late = builders.abandoned(lambda: driver.rebuild(builders.a_context(), first, Image()), later)
    assert isinstance(late, time_limit.Overrun)
    found = {uuid: each["attempt"] for uuid, each in driver.get_per_instance_usage().items()}
    assert ({first.uuid: 2} if is_there else {}) == found


def test_a_console_has_what_is_known_of_the_guest() -> None:
    """Not the host, which projects do not see. At most so many bytes, from its end."""
    driver = a_driver("host1")
    instance = builders.an_instance(node="host1", name="web", flavor=builders.a_flavor(vcpus=2))
    driver.spawn(builders.a_context(), instance, Image())
    printed = driver.get_console_output(builders.a_context(), instance.uuid, 2**16).decode()
    assert ["cpu 0 is up", "cpu 1 is up"] == re.findall("cpu . is up", printed)
    assert ("login:\n", False) == (printed[-7:], "host1" in printed)
    driver.power_off(builders.a_context(), instance)
    assert b"down\n" == driver.get_console_output(builders.a_context(), instance.uuid, 5)
    with pytest.raises(errors.NotFound):
        driver.get_console_output(builders.a_context(), builders.an_instance().uuid, 5)


def test_a_spawn_takes_its_delay() -> None:
    """spawn_delay is waited for once a spawn."""
    pauses: list[float] = []
    driver = FakeDriver(builders.a_conf(fake={"spawn_delay": 2.5}), pause=pauses.append)
    driver.init_host("host1")
    assert spawns(driver, builders.an_instance(node="host1"))
    assert [2.5] == pauses


def test_an_unknown_guest_is_destroyed_with_success_and_has_no_info() -> None:
    """Destroying what is not there is what was wanted; asking about it is not."""
    driver = a_driver()
    driver.destroy(builders.a_context(), "unknown")
    with pytest.raises(errors.NotFound):
        driver.get_info("unknown")


def test_a_record_that_was_hurt_is_seen(tmp_path: pathlib.Path) -> None:
    """Whoever changes or removes a guest's file has hurt the guest: the driver shows what there is, not what it ordered."""
    driver = FakeDriver(builders.a_conf(instances_path=str(tmp_path), fake={"persist": True}))
    driver.init_host("host1")
    instances = [builders.an_instance(node="host1") for _ in range(2)]
    for instance in instances:
        driver.spawn(builders.a_context(), instance, Image())
    crashed, lost = (tmp_path / "fake" / "host1" / f"{instance.uuid}.json" for instance in instances)
    crashed.write_text(json.dumps({**json.loads(crashed.read_text()), "power_state": states.CRASHED}))
    lost.unlink()
    assert states.CRASHED == driver.get_info(instances[0].uuid).state
    assert [instances[0].uuid] == driver.list_instance_uuids()
    with pytest.raises(errors.NotFound):
        driver.get_info(instances[1].uuid)
    driver.power_on(builders.a_context(), instances[0])
    assert states.RUNNING == driver.get_info(instances[0].uuid).state


def test_a_stopped_guest_stays_off_after_a_restart(tmp_path: pathlib.Path) -> None:
    """Unlike one that a move has switched off, it is not marked as such. A start and a reboot let it run."""
    conf, instance = builders.a_conf(instances_path=str(tmp_path), fake={"persist": True}), builders.an_instance()
    driver = FakeDriver(conf)
    driver.init_host("host1")
    driver.spawn(builders.a_context(), instance, Image())
    for method, state in (("suspend", states.SUSPENDED), ("resume", states.RUNNING), ("power_off", states.SHUTDOWN)):
        for _twice in range(2):
            getattr(driver, method)(builders.a_context(), instance)
            assert state == driver.get_info(instance.uuid).state
            assert "switched_off" not in driver.get_per_instance_usage()[instance.uuid]
    again = FakeDriver(conf)
    again.init_host("host1")
    assert states.SHUTDOWN == again.get_info(instance.uuid).state
    assert "switched_off" not in again.get_per_instance_usage()[instance.uuid]
    for hard in (False, True):
        again.reboot(builders.a_context(), instance, hard)
        assert states.RUNNING == again.get_info(instance.uuid).state
    with pytest.raises(errors.NotFound):
        again.power_off(builders.a_context(), builders.an_instance(uuid="unknown"))
