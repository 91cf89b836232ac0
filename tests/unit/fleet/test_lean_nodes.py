# SPDX-License-Identifier: Apache-2.0
"""With which node of a cluster a connection opens, and when it returns."""

from __future__ import annotations

import collections
import random

import pytest

from fleet.rpc.rabbit.lean.nodes import Nodes
from fleet.rpc.rabbit.lean.settings import Broker

BROKERS = [Broker(name, 5672, "guest", "guest", None) for name in ("mq1", "mq2", "mq3")]


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(interval_s: float = 60) -> tuple[Nodes, Clock]:
    clock = Clock()
    return Nodes(BROKERS, interval_s, random.Random(1), clock), clock


def test_connections_of_a_process_share_the_nodes() -> None:
    """Nine connections have three homes each."""
    homes = collections.Counter(made()[0].home.hostname for _connection in range(9))
    assert {"mq1": 3, "mq2": 3, "mq3": 3} == homes


def test_a_lost_home_is_tried_last_until_the_next_look() -> None:
    """The others come in any order, so that the connections of a dead node share those that live."""
    nodes, clock = made()
    assert nodes.home is nodes.in_turn()[0]
    nodes.lost(nodes.home)
    turns = [nodes.in_turn() for _time in range(50)]
    assert {nodes.home} == {turn[-1] for turn in turns}
    assert 2 == len({turn[0].hostname for turn in turns})
    clock.now += 90
    assert nodes.home is nodes.in_turn()[0]


def test_a_node_that_is_no_home_is_lost() -> None:
    """The home stays first."""
    nodes, _clock = made()
    other = next(each for each in BROKERS if each is not nodes.home)
    nodes.lost(other)
    assert nodes.home is nodes.in_turn()[0]


@pytest.mark.parametrize(("after_s", "returns"), [(29, False), (91, True)])
def test_a_connection_returns_after_a_half_to_one_and_a_half_of_the_interval(after_s: float, returns: bool) -> None:
    """Of 60 seconds."""
    nodes, clock = made()
    other = next(each for each in BROKERS if each is not nodes.home)
    nodes.lost(nodes.home)
    clock.now += after_s
    assert returns is nodes.should_return(other)
    assert False is nodes.should_return(nodes.home)


def test_connections_stay_without_an_interval() -> None:
    """rabbit_return_interval = 0"""
    nodes, clock = made(interval_s=0)
    other = next(each for each in BROKERS if each is not nodes.home)
    nodes.lost(nodes.home)
    clock.now += 10**6
    assert False is nodes.should_return(other)
