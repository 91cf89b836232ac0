# SPDX-License-Identifier: Apache-2.0
"""Volumes decided on a copy of the pools that is another in thought."""

from __future__ import annotations

from typing import Any

import pytest

from fleet import errors
from fleet.objects.whatif import Change, Demand
from scheduler.volumes.planning import whatif
from tests.factories import Service, changes, uuid
from tests.unit.scheduler.plugins import configuration
from tests.unit.scheduler.volumes.pools import Pool

EMPTY = {"free_capacity_gb": 100.0, "allocated_capacity_gb": 0, "provisioned_capacity_gb": 0.0}
#: Two backends of 100 GiB, thick; half of the first one is used. The second one has 10 % in reserve.
A = Pool(
    "m1@a", "p", 1, total_capacity_gb=100.0, **{**EMPTY, "free_capacity_gb": 50.0, "provisioned_capacity_gb": 50.0}
)
B = Pool("m2@b", "p", 2, total_capacity_gb=100.0, **EMPTY, reserved_percentage=10)


def demand(number: int, size: int = 20, at_s: float = 0.0, life_s: float | None = None) -> Demand:
    spec: dict[str, Any] = {"volume_id": uuid(number), "volume_properties": {"size": size}, "volume_type": None}
    return Demand(spec, {}, [life_s], at_s, f"volume{number}")


def run(change: Change, *demands: Demand, pools: tuple[Pool, ...] = (A, B)) -> dict[str, Any]:
    services = [Service(host, binary="fleet-volume") for host in sorted({each.host for each in pools})]
    return whatif.run(configuration(), changes(pools, services=services), change, demands, lambda done: None)


SEVEN = [demand(number) for number in range(1, 8)]
THIN = (
    Pool(
        "m1@a",
        "p",
        1,
        total_capacity_gb=100.0,
        thin_provisioning_support=True,
        max_over_subscription_ratio="1",
        **EMPTY,
    ),
)
CASES = {
    "2 on the half of the first, 4 on the 90 GiB of the second": (Change(), SEVEN, (A, B), (2, 6, 1)),
    "without a backend": (Change(without_hosts=["m2@b"]), SEVEN, (A, B), (1, 2, 5)),
    "with an empty backend like the first": (Change(more_hosts=1, like="m1@a"), SEVEN, (A, B), (3, 7, 0)),
    "5 on a thin pool": (Change(), SEVEN, THIN, (1, 5, 2)),
    "10 on a thin pool that promises twice its capacity": (Change(ratios={"volume": 2.0}), SEVEN, THIN, (1, 7, 0)),
    "without the filter that says no": (Change(without_filters=["CapacityFilter"]), SEVEN, THIN, (1, 7, 0)),
    "a volume whose time is over leaves its space": (
        Change(),
        [demand(number, at_s=float(number), life_s=3.0) for number in range(1, 20)],
        (A, B),
        (2, 19, 0),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_would_become_of_volumes(name: str) -> None:
    """They are decided one after the other, and each pick holds its space."""
    change, demands, pools, expected = CASES[name]
    found = run(change, *demands, pools=pools)
    assert expected == (found["pools"], found["placed"], found["refused"])


def test_the_figures() -> None:
    """A refusal has its numbers; what is left is the largest volume that fits."""
    found = run(Change(), *SEVEN)
    assert ({"CAPACITY": 1}, {"20 GiB": 1}) == (found["refused_by_reason"], found["refused_by_size"])
    (line,) = found["unplaced"]
    assert line.startswith("volume7: ")
    assert "lacks 10 GiB: free 10 of 100, reserved 0 %" in line
    assert ("170 of 200 (85.0 %)", 2, 7) == (found["provisioned_gb"], found["pools_in_use"], found["volumes"])
    assert ("10 GiB on m1@a#p",) * 2 == (found["largest_thin"], found["largest_thick"])


def test_hours_count_to_the_end_of_the_trace() -> None:
    """A volume without an end counts until the last request: 20 GiB for 2, for half an hour, and for no time."""
    found = run(Change(), demand(1), demand(2, life_s=1800), demand(3, at_s=7200))
    assert (50.0, 50.0) == (found["gb_hours_asked"], found["gb_hours_placed"])


def test_all_pools_of_a_backend_are_copied() -> None:
    """Under their own names, and empty."""
    pools = (A, Pool("m1@a", "q", 2, total_capacity_gb=100.0, **EMPTY))
    found = run(Change(more_hosts=1, like="m1@a"), *SEVEN, pools=pools)
    assert (4, 7, "190 of 400 (47.5 %)") == (found["pools"], found["placed"], found["provisioned_gb"])
    assert "100 GiB on m1@a#q" == run(Change(), pools=pools)["largest_thick"]


def test_no_pool_is_left() -> None:
    """Every volume is refused."""
    found = run(Change(without_hosts=["m1@a", "m2@b"]), *SEVEN)
    assert (0, 7, "") == (found["pools"], found["refused"], found["largest_thin"])
    assert "0 of 0 (0.0 %)" == found["provisioned_gb"]


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        (Change(without_hosts=["z"]), errors.NotFound, "Host z"),
        (Change(without_filters=["NoFilter"]), errors.InvalidInput, "without-filter is NoFilter, which is not among"),
    ],
)
def test_what_is_not_there_cannot_be_changed(change: Change, error: type[Exception], said: str) -> None:
    """Named, instead of a figure that means nothing."""
    with pytest.raises(error, match=said):
        run(change)


def test_the_pools_are_sampled_over_time() -> None:
    """At each moment what has come and gone until then is counted."""
    # The second volume comes when the first one goes; the third one fits nowhere.
    demands = [demand(1, 90, 0.0, 100.0), demand(2, 90, 100.0), demand(3, 2000, 200.0)]
    found = run(Change(), *demands, pools=(B,))
    samples = found["over_time"]["samples"]
    told = [(each["provisioned"], each["largest_gb"], each["pools_empty"], each["placed"], each["refused"])
            for each in (samples[0], samples[1], samples[-1])]  # fmt: skip
    assert [(0.9, 0.0, 0, 1, 0), (0.9, 0.0, 0, 1, 0), (0.9, 0.0, 0, 2, 1)] == told
    assert ("seconds", 200) == (found["over_time"]["axis"], len(samples))
    assert [{"pool": "m2@b#p", "used": 0.9}] == found["pools_used"]


def test_without_times_there_is_a_sample_after_each_demand() -> None:
    found = run(Change(), *SEVEN)
    placed = [each["placed"] for each in found["over_time"]["samples"]]
    assert ("requests", [1, 2, 3, 4, 5, 6, 6]) == (found["over_time"]["axis"], placed)


def test_a_pool_that_reports_no_capacity_is_not_measured() -> None:
    """It counts as a pool without volumes only."""
    unlimited = Pool("m3@c", "p", 3, total_capacity_gb=None, **{**EMPTY, "free_capacity_gb": None})
    found = run(Change(without_hosts=["m2@b"]), demand(1, 2000), pools=(A, B, unlimited))
    (sample,) = found["over_time"]["samples"]
    assert (1, 0.5, 50.0) == (sample["placed"], sample["provisioned"], sample["room_gb"])
    assert ["m1@a#p"] == [each["pool"] for each in found["pools_used"]]
