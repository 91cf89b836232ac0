# SPDX-License-Identifier: Apache-2.0
"""Queries of users."""

from __future__ import annotations

import json
from unittest import mock

import pytest

from fleet import errors
from scheduler.compute import filters
from scheduler.engine.hosts.candidates import Candidates
from tests import factories
from tests.factories import node, request
from tests.unit.scheduler.judging import passed

HOSTS = [
    node("small", memory_mb=1024, stats={"rack": "7", "load": 0.5}, hypervisor_type="kvm"),
    node("large", memory_mb=4096, running_vms=3, hypervisor_type="xen"),
]
BOTH, SMALL, LARGE, NONE = ["small", "large"], ["small"], ["large"], []
CASES = [
    ("an empty query", [], BOTH),
    ("equal", ["=", "$free_ram_mb", 1024], SMALL),
    ("at least", [">=", "$free_ram_mb", 1024], BOTH),
    ("more", [">", "$free_ram_mb", 1024], LARGE),
    ("at most", ["<=", "$num_instances", 0], SMALL),
    ("less", ["<", "$free_ram_mb", 4096], SMALL),
    ("the first against every other", ["<", "$num_instances", 4, 1], SMALL),
    ("one attribute against another", [">", "$free_ram_mb", "$num_instances"], BOTH),
    ("a text", ["=", "$hypervisor_type", "xen"], LARGE),
    ("among", ["in", "$hypervisor_type", "kvm", "qemu"], SMALL),
    ("a path", ["=", "$stats.rack", "7"], SMALL),
    ("a path into the service", ["not", ["=", "$service.disabled", True]], BOTH),
    ("a path that leads nowhere is nothing", ["=", "$stats.rack.deeper", "7"], NONE),
    ("an attribute that nobody has is nothing", ["=", "$nothing", "7"], NONE),
    ("attributes of the program are nothing", ["=", "$__class__", "$__class__"], NONE),
    ("nothing is left out: one argument is too few", ["=", "$nothing", 1], NONE),
    ("nothing is left out: two are enough", ["=", 1, "$nothing", 1], BOTH),
    ("an empty text is nothing", ["or", "", ["=", "$free_ram_mb", 1024]], SMALL),
    ("and", ["and", [">=", "$free_ram_mb", 1024], ["=", "$num_instances", 3]], LARGE),
    ("or", ["or", ["=", "$free_ram_mb", 1024], ["=", "$num_instances", 3]], BOTH),
    ("not", ["not", ["=", "$free_ram_mb", 1024]], LARGE),
    ("not: any of several", ["not", ["=", "$free_ram_mb", 1024], [">", 1, 0]], LARGE),
    ("not: any of several numbers", ["not", ["=", "$free_ram_mb", 1024], ["=", "$num_instances", 3]], BOTH),
    ("not, inside and", ["and", ["not", ["=", "$free_ram_mb", 1024]], [">", "$free_ram_mb", 0]], LARGE),
    ("and of nothing", ["and"], BOTH),
    ("or of nothing", ["or"], NONE),
    ("a number and a text have no order", ["<", "$free_ram_mb", "5000"], NONE),
    ("too large for any number", ["<", "$free_ram_mb", 10**400], BOTH),
    ("deep, but not too deep", ["and", ["and", ["and", ["=", "$free_ram_mb", 1024]]]], SMALL),
]


@pytest.mark.parametrize(("query", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_json(query, expected):
    """Hosts pass that meet the query."""
    asked = request(scheduler_hints={"query": json.dumps(query)})
    assert set(expected) == passed(filters.JsonFilter(), factories.candidates(*HOSTS), asked)


def test_values_that_hosts_share():
    """Attributes that are kept for many hosts together are read without a host state for each host."""
    query = ["or", *[["=", name, "7"] for name in ("$hypervisor_type", "$stats.rack", "$free_ram_mb", "$nothing")]]
    asked = request(scheduler_hints={"query": json.dumps(query)})
    with mock.patch.object(Candidates, "state", side_effect=AssertionError("a host state was made")):
        assert set(SMALL) == passed(filters.JsonFilter(), factories.candidates(*HOSTS), asked)


@pytest.mark.parametrize("hints", [{}, {"query": ""}, {"query": None}])
def test_no_query(hints):
    """Without one, every host passes."""
    assert set(BOTH) == passed(filters.JsonFilter(), factories.candidates(*HOSTS), request(scheduler_hints=hints))


def test_a_hint_in_a_list():
    """Some clients send every hint as a list."""
    asked = request(scheduler_hints={"query": ['["=", "$free_ram_mb", 1024]']})
    assert set(SMALL) == passed(filters.JsonFilter(), factories.candidates(*HOSTS), asked)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("{", "is not JSON"),
        ('"text"', "must be a list"),
        ('{"=": 1}', "must be a list"),
        ('["like", "$host", "a"]', 'has no operator "like"; known are = < > <= >= in not or and'),
        ("[1, 2]", "has no operator 1"),
        ('["and", ["nand"]]', 'has no operator "nand"'),
        ('["=", {"a": 1}, 1]', "must be a list"),
        ("[" * 100_000, "is nested too deeply"),
        ('["not", ' * 400 + '["=", "$host", "a"]' + "]" * 400, "is nested too deeply"),
        (json.dumps(["in", "$host", *map(str, range(64))]), "has 65 arguments, at most 64 are allowed"),
        (json.dumps(["or", *[[]] * 65]), "has 65 arguments"),
        (json.dumps(["or", *[["=", "$host", "a"]] * 22]), "has 66 arguments"),
        (["and", "or"], "must be JSON text"),
        (7, "must be JSON text"),
    ],
)
def test_queries_without_sense(query, reason):
    """The request is refused, whatever the hosts are, and told what is wrong with the query."""
    with pytest.raises(errors.InvalidInput) as refused:
        filters.JsonFilter().mask(factories.candidates(*HOSTS), request(scheduler_hints={"query": query}))
    assert "filter_properties.scheduler_hints.query" == refused.value.field
    assert reason in refused.value.reason
