# SPDX-License-Identifier: Apache-2.0
"""Every scenario, by kind; a new one is a function and a line in its file's ``SCENARIOS``."""

from __future__ import annotations

from tests.chaos.run import Scenario
from tests.chaos.scenarios import (
    attachments,
    broker,
    clocks,
    contention,
    database,
    galera_cluster,
    guests,
    hosts,
    http_fuzz,
    kills,
    lean_driver,
    maintenance,
    messages,
    moves,
    plugins,
    postgresql_cluster,
    power,
    rabbitmq_cluster,
    recovery,
    signals,
    storage,
    volumes,
    waiting,
)

ALL: list[Scenario] = [
    *kills.SCENARIOS,
    *moves.SCENARIOS,
    *power.SCENARIOS,
    *waiting.SCENARIOS,
    *volumes.SCENARIOS,
    *attachments.SCENARIOS,
    *storage.SCENARIOS,
    *signals.SCENARIOS,
    *broker.SCENARIOS,
    *database.SCENARIOS,
    *messages.SCENARIOS,
    *lean_driver.SCENARIOS,
    *http_fuzz.SCENARIOS,
    *contention.SCENARIOS,
    *hosts.SCENARIOS,
    *clocks.SCENARIOS,
    *guests.SCENARIOS,
    *recovery.SCENARIOS,
    *maintenance.SCENARIOS,
    *plugins.SCENARIOS,
    *rabbitmq_cluster.SCENARIOS,
    *postgresql_cluster.SCENARIOS,
    *galera_cluster.SCENARIOS,
]
