# SPDX-License-Identifier: Apache-2.0
"""How long builds wait for room: the durations of options and commands, and the key of the request."""

from __future__ import annotations

import argparse
from typing import Any

import pytest
from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from fleet import errors
from fleet.client import argument_types
from fleet.clock import durations
from fleet.objects import BuildRequest
from tests.configuration import configuration

FLAVOR = {"vcpus": 1, "memory_mb": 1}


@pytest.mark.parametrize(("text", "wait_s"), [("90", 90), ("90s", 90), ("30m", 1800), ("2h", 7200), ("1d", 86400)])
def test_a_duration(text: str, wait_s: int) -> None:
    assert wait_s == durations.parse(text) == argument_types.duration(text)


@pytest.mark.parametrize("text", ["", "h", "-1", "1.5h", "2 hours", "1h30m", "1w"])
def test_a_wrong_duration_is_named(text: str) -> None:
    """With what is allowed."""
    with pytest.raises(argparse.ArgumentTypeError, match="a number with s, m, h or d, such as 30m or 2h; got '"):
        argument_types.duration(text)


@pytest.mark.parametrize(
    ("duration_s", "text"), [(0, "0 s"), (59.6, "1 min"), (7200, "2 h"), (7325, "2 h 2 min"), (90000, "1 d 1 h")]
)
def test_a_duration_in_words(duration_s: float, text: str) -> None:
    assert text == durations.shown(duration_s)


@pytest.mark.parametrize("wait_s", [-1, 30 * 86400 + 1, "2h", 1.5, True])
def test_a_wrong_wait_of_a_request_names_its_field(wait_s: Any) -> None:
    with pytest.raises(errors.InvalidInput, match=r"request\.wait_for_capacity_s"):
        BuildRequest.from_wire({"flavor": FLAVOR, "wait_for_capacity_s": wait_s})


def test_a_request_that_does_not_mention_it_is_sent_as_before() -> None:
    """A request that is repeated after an upgrade has the same hash."""
    assert "wait_for_capacity_s" not in BuildRequest.from_wire({"flavor": FLAVOR}).to_wire()
    assert 0 == BuildRequest.from_wire({"flavor": FLAVOR, "wait_for_capacity_s": 0}).to_wire()["wait_for_capacity_s"]


def test_the_option_has_a_duration_for_each_project() -> None:
    conf = configuration(conductor_conf.register_opts)
    assert {} == conf.conductor.wait_for_capacity
    conf.set_override("wait_for_capacity", "batch:1d,web:0,*:30m", group="conductor")
    assert {"batch": 86400, "web": 0, "*": 1800} == conf.conductor.wait_for_capacity


@pytest.mark.parametrize("value", ["batch:soon", "*:31d"])
def test_a_wrong_option_stops_the_conductor(value: str) -> None:
    conf = configuration(conductor_conf.register_opts)
    with pytest.raises((ValueError, cfg.ConfigFileValueError), match="got '"):
        conf.set_override("wait_for_capacity", value, group="conductor")
