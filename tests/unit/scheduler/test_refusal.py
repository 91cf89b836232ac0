# SPDX-License-Identifier: Apache-2.0
"""Every no has one dominant reason, a sentence, and the hosts that came nearest."""

from __future__ import annotations

import dataclasses
import logging

import numpy
import pytest

from fleet.reasons import Reason
from scheduler.compute import filters
from scheduler.why.shortfall import Shortfall
from tests import factories
from tests.factories import Service, aggregate, node, request

DEFAULT = (
    filters.RetryFilter(),
    filters.AvailabilityZoneFilter(),
    filters.RamFilter(),
    filters.DiskFilter(),
    filters.CoreFilter(),
    filters.ComputeFilter(),
    filters.ServerGroupAntiAffinityFilter(),
    filters.ServerGroupAffinityFilter(),
)
EXACT = (filters.ExactRamFilter(), filters.ExactDiskFilter(), filters.ExactCoreFilter())
HUGE = {"memory_mb": 10**6}
FULL = {"memory_mb_used": 16000}
EAST = {"aggregates": [aggregate(["a"], availability_zone="east")]}


def refused(nodes, asked, chosen=DEFAULT, **known):
    made = factories.decision(factories.pipeline(chosen), factories.candidates(*nodes, **known), asked)
    assert not made.complete
    return made


DOMINANT = [
    ("all hosts are full", [node("a", **FULL), node("b", **FULL)], request(), {}, Reason.CAPACITY),
    ("larger than any host", [node("a"), node("b")], request(HUGE), {}, Reason.NEVER_FITS),
    ("larger than any, and one is full", [node("a", **FULL), node("b")], request(HUGE), {}, Reason.NEVER_FITS),
    (
        "one would fit if it were empty",
        [node("a", memory_mb=64), node("b", **FULL)],
        request({"memory_mb": 8192}),
        {},
        Reason.CAPACITY,
    ),
    (
        "full of vcpus, and too small in disk",
        [node("a", vcpus_used=8), node("b", local_gb=1)],
        request({"root_gb": 10}),
        {},
        Reason.CAPACITY,
    ),
    ("no such zone", [node("a"), node("b")], request(instance={"availability_zone": "moon"}), {}, Reason.POLICY),
    (
        "the zone's only host is full, the others are elsewhere",
        [node("a", **FULL), node("b"), node("c")],
        request(instance={"availability_zone": "east"}),
        EAST,
        Reason.CAPACITY,
    ),
    (
        "too large for the zone's hosts, not for the others",
        [node("a", memory_mb=512), node("b"), node("c")],
        request(instance={"availability_zone": "east"}),
        EAST,
        Reason.NEVER_FITS,
    ),
    (
        "most are down",
        [node("a"), node("b"), node("c", **FULL)],
        request(),
        {"services": [Service("a", disabled=True), Service("b", last_seen_up=None), Service("c")]},
        Reason.HOSTS_DOWN,
    ),
    (
        "as many are down as full: the later filter's reason",
        [node("a"), node("c", **FULL)],
        request(),
        {"services": [Service("a", forced_down=True), Service("c")]},
        Reason.HOSTS_DOWN,
    ),
    ("all were tried", [node("a")], request(retry={"hosts": [["a", "a"]]}), {}, Reason.RACE_LOST),
    ("no host is known", [], request(), {}, Reason.HOSTS_DOWN),
    ("the request excludes all by name", [node("a")], request(ignore_hosts=["a"]), {}, Reason.POLICY),
    ("the forced host is not known", [node("a")], request(force_hosts=["x"]), {}, Reason.POLICY),
    ("the group leaves no host", [node("a")], request(count=2, group_policies=["anti-affinity"]), {}, Reason.POLICY),
    ("room for some of the instances", [node("a")], request({"memory_mb": 9000}, count=2), {}, Reason.CAPACITY),
]


@pytest.mark.parametrize(("name", "nodes", "asked", "known", "code"), DOMINANT)
def test_one_reason_is_dominant(name, nodes, asked, known, code):
    """What the request itself excludes speaks only if nothing else does; of the rest the most frequent reason wins."""
    made = refused(nodes, asked, **known)
    assert code is made.refusal.code, name
    assert code.value == made.to_wire()["reason_code"]


SILENT = [
    ("not heard of for long", [Service("a", last_seen_up=None), Service("b", last_seen_up=None)], 2),
    ("one of them disabled", [Service("a", last_seen_up=None, disabled=True), Service("b", last_seen_up=None)], 1),
    ("forced down or disabled", [Service("a", forced_down=True), Service("b", disabled=True)], 0),
]


@pytest.mark.parametrize(("name", "services", "expected"), SILENT)
def test_hosts_that_may_be_heard_of_again_are_counted(name, services, expected):
    """What an operator has decided is not silence, whether or not the host speaks."""
    made = refused([node("a"), node("b")], request(), services=services)
    assert (expected, "HOSTS_DOWN") == (made.to_wire()["silent"], made.to_wire()["reason_code"]), name


def test_the_numbers_of_the_nearest():
    """The hosts that lack the smallest part come first, each with limit, used and asked of what it lacks."""
    nodes = [node("far", memory_mb=4096, memory_mb_used=4000), node("near", memory_mb=96000, memory_mb_used=93952)]
    made = refused(nodes, request({"memory_mb": 4096}))
    near, far = made.refusal.nearest
    assert "near lacks 2048 MB of RAM: limit 96000, used 93952, asked 4096" == near.text
    assert "far" == far.host
    (shortfall,) = near.to_wire()["shortfalls"]
    assert (96000.0, 93952.0, 4096.0, 2048.0, False) == tuple(
        shortfall[key] for key in ("limit", "used", "asked", "lacks", "never_fits")
    )
    assert near.text in made.reason


def test_all_that_a_host_lacks_is_told():
    """The first filter drops a host, and others would have too."""
    made = refused([node("a", memory_mb_used=16000, local_gb_used=95)], request({"root_gb": 10}))
    (miss,) = made.refusal.nearest
    assert (
        "a lacks 640 MB of RAM: limit 16384, used 16000, asked 1024; and lacks 5 GB of disk: limit 100, used 95, asked 10"
        == miss.text
    )


WORDS = [
    ("disabled", Service("a", disabled=True), {}, "a is disabled"),
    ("forced down", Service("a", forced_down=True), {}, "a is forced down"),
    ("silent", Service("a", last_seen_up=None), {}, "a was never heard from"),
    ("other zone", Service("a"), {"instance": {"availability_zone": "moon"}}, "a is in zone nova"),
    ("tried", Service("a"), {"retry": {"hosts": [["a", "a"]]}}, "a has been tried in vain"),
    ("a place for each host", Service("a"), {"group_policies": ["anti-affinity"], "group_hosts": ["a"]},
     "a lacks 1 places for the group: limit 1, used 1, asked 1"),
    ("no words", Service("a"), {"group_policies": ["affinity"], "group_hosts": ["b"]},
     "a: ServerGroupAffinityFilter says no"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "service", "asked", "text"), WORDS)
def test_what_has_no_numbers_has_words(name, service, asked, text):
    """A filter may explain in words why it dropped a host."""
    made = refused([node("a")], request(**asked), services=[service])
    assert [text] == [miss.text for miss in made.refusal.nearest], name


EXACTLY = [
    ("memory", {"memory_mb": 3072}, {"memory_mb": 2048}, Reason.CAPACITY,
     "a has 3072 MB of RAM free, and exactly 2048 are wanted"),
    ("too little memory for ever", {"memory_mb": 1024}, {"memory_mb": 2048}, Reason.NEVER_FITS,
     "a has 1024 MB of RAM free, and exactly 2048 are wanted; even empty it has 1024"),
    ("disk", {"memory_mb": 1024, "local_gb": 9}, {"root_gb": 5}, Reason.CAPACITY,
     "a has 9 GB of disk free, and exactly 5 are wanted; and has 8 vcpus free, and exactly 1 are wanted"),
    ("vcpus", {"memory_mb": 1024, "local_gb": 0, "vcpus_used": 5}, {}, Reason.CAPACITY,
     "a has 3 vcpus free, and exactly 1 are wanted"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "columns", "sizes", "code", "text"), EXACTLY)
def test_what_must_fit_exactly(name, columns, sizes, code, text):
    """Too much is as wrong as too little; a host that is too small even when empty never fits."""
    made = refused([node("a", **columns)], request(sizes), EXACT if name != "memory" else EXACT[:1])
    nearest = made.refusal.nearest[0].text
    assert (code, True) == (made.refusal.code, nearest.startswith(text)), nearest


BAD_NUMBERS = [
    ("a text", lambda numbers: "none"),
    ("arrays that are too short", lambda numbers: dataclasses.replace(numbers, limit=numbers.limit[:0])),
    ("a list", lambda numbers: dataclasses.replace(numbers, used=[1.0])),
    ("texts", lambda numbers: dataclasses.replace(numbers, most=numpy.array(["x"]))),
    ("what is not a number", lambda numbers: dataclasses.replace(numbers, used=numpy.array([numpy.nan]))),
    ("nothing asked", lambda numbers: dataclasses.replace(numbers, asked=None)),
]


@pytest.mark.parametrize(("name", "spoil"), BAD_NUMBERS)
def test_numbers_that_make_no_sense_are_left_out(name, spoil, caplog):
    """A plugin that gives such is named in the log; the refusal stays."""

    class Spoilt(filters.RamFilter):
        def shortfall(self, hosts, request):
            return spoil(super().shortfall(hosts, request))

    made = refused([node("a", **FULL)], request(), (Spoilt(),))
    assert (Reason.CAPACITY, "a: Spoilt says no") == (made.refusal.code, made.refusal.nearest[0].text), name
    assert any("Spoilt could not explain its no: it gave" in record.getMessage() for record in caplog.records)


def test_words_that_are_none_are_left_out():
    """An objection must be a text."""

    class Odd(filters.RamFilter):
        def shortfall(self, hosts, request):
            return None

        def objection(self, hosts, request):
            return 7

    assert "a: Odd says no" == refused([node("a", **FULL)], request(), (Odd(),)).refusal.nearest[0].text


@pytest.mark.parametrize(("more", "code"), [([], Reason.POLICY), ([node("m", **FULL)], Reason.CAPACITY)])
def test_a_full_host_that_the_request_does_not_allow_either(more, code):
    """RamFilter has dropped it before the group was asked: room on it would not help."""
    asked = request(group_policies=["affinity"], group_hosts=["m"])
    made = refused([node("a", **FULL), node("b"), *more], asked)
    assert code is made.refusal.code
    if more:
        assert "1 of 1 hosts that the request allows are too full" in made.reason
        assert ["m"] == [miss.host for miss in made.refusal.nearest]
    else:
        assert "the request's own conditions rule out all of 2 hosts" in made.reason
        assert "RamFilter 1, ServerGroupAffinityFilter 1" in made.reason


def test_drops_add_up_over_the_instances():
    """Hosts that were filled by earlier instances of the request count, too."""
    made = refused([node("a"), node("b")], request({"memory_mb": 9000}, count=3))
    assert {"RamFilter": 2} == made.refusal.dropped
    assert "There is room for 2 of 3 instances." in made.reason


def test_an_explanation_that_fails_hides_nothing(caplog):
    """If a plugin's numbers are broken, the refusal stays as it is."""

    class Broken(filters.RamFilter):
        def shortfall(self, hosts, request):
            raise ZeroDivisionError

    made = refused([node("a", **FULL)], request(), (Broken(),))
    assert (Reason.CAPACITY, "a: Broken says no") == (made.refusal.code, made.refusal.nearest[0].text)
    assert any("Broken" in record.getMessage() for record in caplog.records)


def test_a_placed_request_asks_for_no_numbers():
    """On the way to a host nothing is explained."""

    class Costly(filters.RamFilter):
        def shortfall(self, hosts, request) -> Shortfall:
            raise AssertionError("asked")

    made = factories.decision(factories.pipeline([Costly()]), factories.candidates(node("a")), request())
    assert (True, None) == (made.complete, made.refusal)


@pytest.mark.parametrize(("level", "expected"), [(logging.DEBUG, True), (logging.INFO, False)])
def test_hosts_are_listed_at_debug_only(caplog, level, expected):
    """An operator who asks for it sees which hosts each filter dropped."""
    with caplog.at_level(level):
        refused([node("a", **FULL)], request())
    assert expected is any("Filter RamFilter dropped [('a', 'a')]" in record.getMessage() for record in caplog.records)


def test_a_forced_host_that_is_not_known_is_named():
    """The sentence names the forced host."""
    found = refused([node("a")], request(force_hosts=["h9"])).refusal
    told = "There are not enough hosts available: host h9, which the request forces, is not known."
    assert (Reason.POLICY, told) == (found.code, found.sentence)


def test_a_host_without_cpus_does_not_hide_what_others_lack():
    """Its vcpus are not limited, also where the aggregate has the ratio 0."""
    chosen = (filters.AggregateCoreFilter(), filters.RamFilter())
    none = aggregate(["a", "b"], cpu_allocation_ratio="0")
    made = refused([node("a", vcpus=0, **FULL), node("b", vcpus=8)], request(), chosen, aggregates=[none])
    texts = {miss.host: miss.text for miss in made.refusal.nearest}
    assert "b lacks 1 vcpus: limit 0, used 0, asked 1; even empty it has 0" == texts["b"]


def test_a_host_that_reserves_more_than_it_has_lacks_that():
    """Also of a flavor without a disk, and with the ratio 0."""
    none = aggregate(["a"], disk_allocation_ratio="0")
    over = node("a", local_gb=10, reserved_disk_gb=200, local_gb_used=200)
    made = refused([over], request({"root_gb": 0}), [filters.AggregateDiskFilter()], aggregates=[none])
    assert Reason.NEVER_FITS == made.refusal.code
    assert (
        "a lacks 190 GB of disk: limit 200, used 200, asked 0; even empty it has -190" == made.refusal.nearest[0].text
    )


NAMED = [
    (
        "a forced host is excluded",
        {"force_hosts": ["A"], "ignore_hosts": ["a"]},
        "host A, which the request forces, is excluded",
    ),
    (
        "no such host",
        {"requested_destination": {"host": "h9"}},
        "host h9, to which the request is limited, is not known.",
    ),
    (
        "no such node",
        {"requested_destination": {"node": "n9"}},
        "node n9, to which the request is limited, is not known.",
    ),
    (
        "the only host is excluded",
        {"requested_destination": {"host": "a"}, "ignore_hosts": ["a"]},
        "host a, to which the request is limited, is excluded by the same request.",
    ),
    (
        "the only host is none of those that are left",
        {"requested_destination": {"host": "a"}, "within_hosts": ["b"]},
        "host a, to which the request is limited, is excluded by the same request.",
    ),
]


@pytest.mark.parametrize(("properties", "told"), [pytest.param(*case[1:], id=case[0]) for case in NAMED])
def test_a_request_that_names_its_host_does_not_exclude_all(properties, told):
    """The sentence is about the host that the request names."""
    made = refused([node("a"), node("b")], request(**properties))
    assert Reason.POLICY == made.refusal.code
    assert f"There are not enough hosts available: {told}" in made.refusal.sentence
