# SPDX-License-Identifier: Apache-2.0
"""The private RabbitMQ of tests and ``make up`` is reachable from this machine only."""

from __future__ import annotations

import psutil

from fleet_trial.private_servers import RabbitMQ


def test_it_listens_on_loopback_only(broker: RabbitMQ) -> None:
    """Its own port, Erlang's distribution, and the port mapper."""
    distribution = int(broker.ctl("eval", 'list_to_integer(os:getenv("RABBITMQ_DIST_PORT")).'))
    listening = {
        each.laddr.port: each.laddr.ip for each in psutil.net_connections("tcp") if each.status == psutil.CONN_LISTEN
    }
    ours = {port: listening.get(port) for port in (broker.port, distribution)}
    assert {"127.0.0.1"} == set(ours.values()), ours
