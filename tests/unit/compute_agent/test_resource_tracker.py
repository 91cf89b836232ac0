# SPDX-License-Identifier: Apache-2.0
"""Tests of the resource tracker."""

from __future__ import annotations

import threading

import pytest

from compute_agent.node.claims import NopClaim, Resources
from compute_agent.node.resource_tracker import ResourceTracker
from fleet import errors
from fleet.objects import HostLimits
from tests.unit.compute_agent import builders
from tests.unit.compute_agent.builders import HOST


def test_a_claim_is_held_after_its_with() -> None:
    """Leaving the ``with`` normally keeps what is held."""
    tracker = builders.a_tracker()
    instance = builders.an_instance()
    with tracker.instance_claim(instance, HostLimits(), overhead_memory_mb=8) as claim:
        pass
    assert Resources(520, 10, 1) == claim.resources == tracker.view().used
    assert frozenset([instance.uuid]) == tracker.view().instances


def test_a_claim_is_given_back_when_its_with_fails() -> None:
    """Leaving the ``with`` by an exception gives everything back."""
    tracker = builders.a_tracker()
    with pytest.raises(RuntimeError), tracker.instance_claim(builders.an_instance(), HostLimits()):
        raise RuntimeError
    assert Resources() == tracker.view().used


def test_used_is_reserved_and_orphans_and_claims() -> None:
    """All three count against the limit."""
    tracker = builders.a_tracker(reserved_memory_mb=512, reserved_vcpus=1, reserved_disk_gb=2, orphaned_memory_mb=100)
    tracker.instance_claim(builders.an_instance(), HostLimits())
    assert Resources(512 + 100 + 512, 2 + 10, 1 + 1) == tracker.view().used


def test_a_repeated_claim_is_stale_and_takes_nothing() -> None:
    """A repeated message neither counts twice nor gives the first one's resources back."""
    tracker = builders.a_tracker()
    instance = builders.an_instance()
    tracker.instance_claim(instance, HostLimits())
    with pytest.raises(errors.StaleBuild):
        tracker.instance_claim(instance, HostLimits())
    assert Resources(512, 10, 1) == tracker.view().used


def test_a_late_abort_does_not_take_what_a_later_claim_holds() -> None:
    """A claim releases only its own resources."""
    tracker = builders.a_tracker()
    instance = builders.an_instance()
    first = tracker.instance_claim(instance, HostLimits())
    tracker.release(instance.uuid)
    tracker.instance_claim(instance, HostLimits())
    first.abort()
    assert Resources(512, 10, 1) == tracker.view().used


def test_a_node_without_inventory_is_not_tracked() -> None:
    """Before its first inventory a node gives claims that hold nothing."""
    tracker = ResourceTracker(builders.HOST, builders.HOST)
    claim = tracker.instance_claim(builders.an_instance(), HostLimits(memory_mb=1))
    assert isinstance(claim, NopClaim)
    assert Resources() == tracker.view().used


def test_a_suspended_node_takes_no_claims_until_a_good_inventory() -> None:
    """After a refused inventory claims are refused with its reason, until the next good one."""
    tracker = builders.a_tracker()
    tracker.suspend("the inventory is odd")
    with pytest.raises(errors.ComputeResourcesUnavailable) as refused:
        tracker.instance_claim(builders.an_instance(), HostLimits())
    assert "the inventory is odd" == refused.value.reason
    tracker.set_report(builders.a_report())
    tracker.instance_claim(builders.an_instance(), HostLimits())
    assert 1 == len(tracker.view().instances)


def test_tracked_instances_hold_what_the_ledger_says() -> None:
    """After a restart the claim of old counts, whatever the flavor would take today."""
    tracker = builders.a_tracker()
    tracker.track(builders.an_instance(claimed_memory_mb=600, claimed_disk_gb=11, claimed_vcpus=3))
    assert Resources(600, 11, 3) == tracker.view().used


@pytest.mark.parametrize("slots", [1, 7])
def test_as_many_racers_win_as_there_are_slots(slots: int) -> None:
    """Of 40 threads that claim at the same moment exactly as many succeed as fit under the limit."""
    tracker = builders.a_tracker()
    limits = HostLimits(memory_mb=512 * slots)
    outcomes: list[bool] = []
    gate = threading.Barrier(40)

    def race() -> None:
        instance = builders.an_instance()
        gate.wait()
        try:
            tracker.instance_claim(instance, limits)
            outcomes.append(True)
        except errors.ComputeResourcesUnavailable:
            outcomes.append(False)

    racers = [threading.Thread(target=race) for _ in range(40)]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join()
    assert slots == sum(outcomes)
    assert 40 == len(outcomes)
    assert 512 * slots == tracker.view().used.memory_mb


def test_failed_builds_count_until_one_succeeds() -> None:
    """Failures in a row make a host sick; one success makes it well."""
    tracker = builders.a_tracker()
    tracker.build_ended(failed=True)
    tracker.build_ended(failed=True)
    assert 2 == tracker.failed_builds
    tracker.build_ended(failed=False)
    assert 0 == tracker.failed_builds


def test_failed_builds_are_forgiven_after_a_while() -> None:
    """A host with a penalty gets no builds, so only time can remove the penalty."""
    clock = builders.SteppingClock()
    tracker = ResourceTracker(HOST, HOST, forgive_after_s=600, clock=clock)
    tracker.build_ended(failed=True)
    tracker.build_ended(failed=True)
    assert 2 == tracker.failed_builds
    clock.now = 601
    assert 0 == tracker.failed_builds
