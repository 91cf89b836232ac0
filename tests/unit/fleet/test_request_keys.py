# SPDX-License-Identifier: Apache-2.0
"""Keys of a build request that are not known: a misspelt one is an error, any other is named in a warning."""

from __future__ import annotations

import pytest

from fleet import errors
from fleet.objects import BuildRequest, request_keys

FLAVOR = {"vcpus": 1, "memory_mb": 64}

MISSPELT = [
    ({"schedular_hints": {}}, "request.schedular_hints", "scheduler_hints"),
    ({"max_cnt": 2}, "request.max_cnt", "max_count"),
    ({"ignore_host": ["h1"]}, "request.ignore_host", "ignore_hosts"),
    ({"Flavor": "m1"}, "request.Flavor", "flavor"),
    ({"flavor": {**FLAVOR, "memory": 64}}, "request.flavor.memory", "memory_mb"),
    ({"image": {"min_disc": 1}}, "request.image.min_disc", "min_disk"),
]


@pytest.mark.parametrize(("request_", "field", "meant"), MISSPELT, ids=[case[1] for case in MISSPELT])
def test_a_near_miss_is_an_error(request_, field, meant):
    """The message names the key that was probably meant."""
    with pytest.raises(errors.InvalidInput) as refused:
        request_keys.examine({"flavor": FLAVOR, **request_})
    assert (field, f"is not known; did you mean {meant}?") == (refused.value.field, refused.value.reason)


@pytest.mark.parametrize("key", ["personality", "injected_files", "config_drive"])
def test_what_cannot_be_honoured_is_named(key):
    """A warning names the ignored key and the reason."""
    (warning,) = request_keys.examine({"flavor": FLAVOR, key: "x"})
    assert warning == f"request.{key} is ignored: {request_keys.UNSUPPORTED[key]}"


def test_any_other_key_is_named_too():
    """An unknown key gets a warning: a later release may support it."""
    assert ["request.tomorrow is not known and is ignored"] == request_keys.examine({"flavor": FLAVOR, "tomorrow": 1})


def test_known_keys_give_no_warning():
    """All that a request may have."""
    assert [] == request_keys.examine(BuildRequest.from_wire({"flavor": FLAVOR}).to_wire())


HINTS = [
    ({"query": "{"}, "query", "is not JSON"),
    ({"query": '["near", 1]'}, "query", "has no operator"),
    ({"query": 5}, "query", "must be JSON text"),
    ({"query": '{"a": 1}'}, "query", "must be a list"),
    ({"build_near_host_ip": "near"}, "build_near_host_ip", "must be an IP address"),
    ({"build_near_host_ip": 7}, "build_near_host_ip", "must be an IP address"),
    ({"build_near_host_ip": "192.0.2.1", "cidr": "/99"}, "build_near_host_ip", "gives no network"),
    ({"build_near_host_ip": "192.0.2.1", "cidr": "24"}, "cidr", "must be a prefix length such as /24"),
    ({"cidr": ["/24", "/25"]}, "cidr", "must be a prefix length"),
    ({"same_host": "nobody"}, "same_host.0", "UUID"),
    ({"different_host": [5]}, "different_host.0", "string"),
    ({"group": 5}, "group", "string"),
]


@pytest.mark.parametrize(("hints", "name", "reason"), HINTS)
def test_hints_are_checked_when_a_request_comes(hints, name, reason):
    """A hint that its filter could not read is refused at once, with the hint's name."""
    with pytest.raises(errors.InvalidInput) as refused:
        BuildRequest.from_wire({"flavor": FLAVOR, "scheduler_hints": hints})
    assert f"request.scheduler_hints.{name}" == refused.value.field
    assert reason in refused.value.reason


@pytest.mark.parametrize(
    "hints",
    [
        {"query": '["and", [">=", "$free_ram_mb", 1024]]'},
        {"query": ['["=", "$host", "h1"]']},
        {"query": ""},
        {"build_near_host_ip": ["2001:db8::1"], "cidr": "/64"},
        {"build_near_host_ip": "192.0.2.1"},
        {"requested_host": {"of": ["any", "shape"]}},
    ],
)
def test_hints_that_are_right(hints):
    """Hints of built-in filters in their forms, and any other hint unchanged, get no warning."""
    assert hints == BuildRequest.from_wire({"flavor": FLAVOR, "scheduler_hints": hints}).scheduler_hints
