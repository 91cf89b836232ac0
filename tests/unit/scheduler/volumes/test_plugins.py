# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers of users, written for cinder, and how a pool is chosen."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import random

import numpy
import pytest

from scheduler.engine.weighing import lottery
from scheduler.volumes import filters, weights
from scheduler.volumes.domain.domain import POOLS as POOL_DOMAIN
from scheduler.volumes.domain.pool_state import PoolState
from tests.unit.scheduler.volumes.pools import Pool, candidates, decided, pipeline, request, typed

POOLS = [
    Pool("m1@lvm", "a", availability_zone="east", report={"pool_name": "a", "ssd": True, "free_capacity_gb": 100}),
    Pool("m2@lvm", "b", total_volumes=3, report={"pool_name": "b", "ssd": False, "storage_protocol": "FC"}),
]


class ByBackendPasses(filters.BaseBackendFilter):
    def backend_passes(self, backend_state, filter_properties):
        return backend_state.capabilities["ssd"] and filter_properties["size"] == 5


class ByHostPasses(filters.BaseHostFilter):
    def host_passes(self, host_state, filter_properties):
        spec = filter_properties["request_spec"]["resource_properties"]
        assert spec["size"] == filter_properties["size"]
        return host_state.host == "m2@lvm#b" and filter_properties["resource_type"]["name"] == "fast"


class ByBoth(ByHostPasses):
    def backend_passes(self, backend_state, filter_properties):
        raise AssertionError("host_passes wins")


class Oncer(filters.BaseBackendFilter):
    """Keeps what it has seen on itself, and answers with a text."""

    def backend_passes(self, backend_state, filter_properties):
        known, self.known = getattr(self, "known", ""), backend_state.host
        return not known and "yes"


class RoomyButNotHere(filters.CapacityFilter):
    def backend_passes(self, backend_state, filter_properties):
        return super().backend_passes(backend_state, filter_properties) and backend_state.pool_name != "a"


class ByServiceZone(filters.BaseBackendFilter):
    def backend_passes(self, backend_state, filter_properties):
        return backend_state.service["availability_zone"] is None and backend_state.free_capacity_gb == 100


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (ByBackendPasses, ["a"]),
        (ByHostPasses, ["b"]),
        (ByBoth, ["b"]),
        (Oncer, ["a"]),
        (RoomyButNotHere, ["b"]),
        (ByServiceZone, ["b"]),
    ],
)
def test_filters_of_users(cls, expected):
    """Either of cinder's method names, dicts with cinder's keys, any true answer, state for one request."""
    made = pipeline([cls()], alternates=1)
    for _again in range(2):
        decision = decided(made, candidates(*POOLS), request(5, typed(ssd="x")))
        found = [pick.key[1] for pick in decision.picks] + [
            each.nodename for pick in decision.picks for each in pick.alternates
        ]
        assert expected == found


class Older(weights.BaseHostWeigher):
    """Cinder's form of the Havana release."""

    def _weight_multiplier(self):
        return -2.0

    def _weigh_object(self, host_state, weight_properties):
        return host_state.allocated_capacity_gb + len(host_state.pool_name)


class Newer(weights.BaseHostWeigher):
    def weight_multiplier(self):
        return 3.0

    def _weigh_object(self, host_state, weight_properties):
        return weight_properties["volume_type"]["name"] == "fast" and host_state.total_capacity_gb


def test_weighers_of_users():
    """Older and newer names of the multiplier; weights are normalised over the pools."""
    pools = [Pool("m1@lvm", "a", total_capacity_gb=900), Pool("m2@lvm", "b", allocated_capacity_gb=7)]
    decision = decided(pipeline(weighers=[Older(), Newer()]), candidates(*pools), request(1, typed()), best=2)
    assert [("a", -2.0 + 3.0), ("b", 0.0)] == [(each["nodename"], each["weight"]) for each in decision.scores]


def test_a_refusal_has_the_numbers_of_the_pool():
    """The nearest pool comes first, in the words of an operator."""
    pools = [Pool("m1@lvm", "a", reserved_percentage=10, provisioned_capacity_gb=370, free_capacity_gb=130)]
    pools += [Pool("m2@nfs", "b", thin_provisioning_support=True, max_over_subscription_ratio="1.0")]
    decision = decided(pipeline(), candidates(*pools), request(200))
    said = "pool m2@nfs#b lacks 100 GiB: free 100 of 500, reserved 0 %, over-subscription 1.0"
    assert "CAPACITY" == decision.to_wire()["reason_code"]
    assert said in decision.reason
    assert "not enough pools" in decision.reason
    nearest = decision.to_wire()["nearest"]
    assert ["m2@nfs", "m1@lvm"] == [each["host"] for each in nearest]
    assert "lacks 120 GiB: free 80 of 500, reserved 10 %" in nearest[1]["text"]
    assert "NEVER_FITS" == decided(pipeline(), candidates(*pools), request(600)).to_wire()["reason_code"]


@pytest.mark.parametrize(
    ("each", "asked", "expected"),
    [
        (filters.CapabilitiesFilter(), request(1, typed(ssd="<is> True")), "reports False as ssd, where '<is> True'"),
        (filters.CapabilitiesFilter(), request(1, typed(iops=">= 5")), "reports nothing as iops"),
        (filters.AvailabilityZoneFilter(), request(1, availability_zone="west"), "is in no zone"),
        (filters.IgnoreAttemptedHostsFilter(), request(1), "tried"),
        (filters.DriverFilter(), request(1), "filter_function"),
    ],
)
def test_other_refusals_say_why(each, asked, expected):
    assert expected in each.objection(candidates(POOLS[1]), asked)


def test_a_pick_is_counted_on_its_pool():
    """The second volume finds less space, and one volume more."""
    pools = candidates(*POOLS)
    asked = request(30)
    pools.pick(0, "x", pipeline().domain.requests.consumption(asked), asked)
    state = pools.state(0)
    assert (70, 430, 430, 1) == (
        state.free_capacity_gb,
        state.allocated_capacity_gb,
        state.provisioned_capacity_gb,
        state.total_volumes,
    )


@pytest.mark.parametrize(
    ("scores", "chance", "expected"),
    [
        ([1.0, 3.0], 0.2, [0, 1]),
        ([1.0, 3.0], 0.25, [1, 0]),
        ([1.0, 3.0], 0.999, [1, 0]),
        ([1.0, -numpy.inf, 3.0, 4.0], 0.3, [2, 3, 0]),
        ([0.0, 0.0], 0.7, [0, 1]),
        ([5.0], 0.5, [0]),
    ],
)
def test_a_lottery(scores, chance, expected):
    """The winner comes first, then the others in their order, from the winner on."""

    class Fixed(random.Random):
        def random(self):
            return chance

    assert expected == lottery.draw(numpy.array(scores), 9, Fixed())


def test_chances_follow_the_weights():
    """Of pools with 10 and 30 allocated GiB, the second gets about three of four volumes."""
    pools = [Pool("m1@lvm", "a", allocated_capacity_gb=10), Pool("m2@lvm", "b", allocated_capacity_gb=30)]
    made = pipeline(weighers=[weights.AllocatedCapacityWeigher(1.0)], lottery=True)
    made = dataclasses.replace(
        made,
        domain=dataclasses.replace(
            made.domain, defaults=dataclasses.replace(made.domain.defaults, normalisation="none")
        ),
    )
    picked = collections.Counter(
        decided(made, candidates(*pools), request(1), seed).picks[0].key[1] for seed in range(400)
    )
    assert 0.65 < picked["b"] / 400 < 0.85


def test_a_pool_state_of_a_test_of_a_user():
    """It has cinder's attributes with cinder's initial values."""
    state = PoolState("m1@lvm#p", total_capacity_gb=10, free_capacity_gb=5)
    assert ("m1@lvm#p", "p", None, 0) == (state.backend_id, state.pool_name, state.cluster_name, state.driver_version)
    assert filters.CapacityFilter().backend_passes(state, {"size": 5})
    assert not filters.CapacityFilter().backend_passes(state, {"size": 6})
    with pytest.raises(AttributeError):
        state.nothing


def test_the_page_has_every_filter_and_weigher():
    """Each has a row in docs/volume-filters-and-weighers.md, and the defaults are marked."""
    page = (pathlib.Path(__file__).parents[4] / "docs" / "volume-filters-and-weighers.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.startswith("| ")]
    marked = {row[1].strip(): "D" in row[2] for row in rows}
    defaults = {*POOL_DOMAIN.defaults.filters, *POOL_DOMAIN.defaults.weighers}
    for cls in (*filters.CLASSES, *weights.CLASSES):
        assert (cls.__name__, cls.__name__ in defaults) == (cls.__name__, marked[cls.__name__])
