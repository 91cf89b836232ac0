# SPDX-License-Identifier: Apache-2.0
"""The expressions match what a service needs, and what only looks like it does not."""

from __future__ import annotations

import re
import shlex

import pytest

from fleet.rpc.rabbit import permissions


def topics(hosts: list[str]) -> dict[str, tuple[str, str]]:
    """By topic exchange, what an agent of ``hosts`` may send and bind."""
    lines = [shlex.split(line) for line in permissions.commands(permissions.compute("fleet", hosts), "agent", "/")]
    return {line[5]: (line[6], line[7]) for line in lines if line[1] == "set_topic_permissions"}


KEYS = [
    ("its own host", ["h1"], "compute.h1", True),
    ("one of its hosts", ["h1", "h2"], "compute.h2", True),
    ("a host whose name begins alike", ["h1"], "compute.h10", False),
    ("a host whose name ends alike", ["h1"], "compute.xh1", False),
    ("a dot is a dot", ["h1.dc"], "compute.h1xdc", False),
    ("a name with signs", ["h(1)+"], "compute.h(1)+", True),
    ("another topic", ["h1"], "scheduler", False),
]


@pytest.mark.parametrize(("what", "hosts", "key", "allowed"), KEYS, ids=[case[0] for case in KEYS])
def test_the_routing_keys_of_an_agent(what: str, hosts: list[str], key: str, allowed: bool) -> None:
    """It sends to, and is bound for, its own hosts and those of no other host."""
    sent, bound = topics(hosts)["fleet_hosts"]
    assert (allowed, allowed) == (bool(re.search(sent, key)), bool(re.search(bound, key)))


def test_the_routing_keys_of_an_agent_of_backends() -> None:
    """Its own backends, which conductors reach; and no host of virtual machines."""
    lines = [shlex.split(line) for line in permissions.commands(permissions.volume("fleet", ["m1@files"]), "v", "/")]
    sent, bound = {line[5]: (line[6], line[7]) for line in lines if line[1] == "set_topic_permissions"}["fleet_hosts"]
    for key, allowed in (("volume.m1@files", True), ("volume.m1@file", False), ("compute.m1@files", False)):
        assert (allowed, allowed) == (bool(re.search(sent, key)), bool(re.search(bound, key)))
    lines = [shlex.split(line) for line in permissions.commands(permissions.conductor("fleet"), "c", "/")]
    sent = {line[5]: line[6] for line in lines if line[1] == "set_topic_permissions"}["fleet_hosts"]
    assert re.search(sent, "volume.m1@files")


def test_a_scheduler_sends_bookings_to_the_others() -> None:
    """They go through the exchange for fanouts of its topic."""
    (line,) = (
        line for line in permissions.commands(permissions.scheduler("fleet"), "s", "/") if "set_permissions" in line
    )
    configure, write, read = shlex.split(line)[5:]
    assert all(re.search(each, "scheduler_fanout") for each in (configure, write, read))
    assert not re.search(write, "compute_fanout")


def test_a_user_serves_nothing() -> None:
    """The expression of nothing matches nothing."""
    lines = [shlex.split(line) for line in permissions.commands(permissions.client("fleet"), "me", "/")]
    assert {"^$"} == {line[7] for line in lines if line[1] == "set_topic_permissions"}
