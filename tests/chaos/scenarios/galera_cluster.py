# SPDX-License-Identifier: Apache-2.0
"""A Galera cluster behind one address loses the node that takes the writes."""

from __future__ import annotations

import random
import time

from tests.chaos.database_clusters import GALERA_CLUSTER, GaleraDatabase
from tests.chaos.scenarios.database_faults import NOTICED_S, scenarios


def _kill(database: GaleraDatabase, chance: random.Random) -> None:
    """The node is killed; the address leads to another one 2 s later."""
    database.node.kill()
    _follow_another(database, chance)


def _stop(database: GaleraDatabase, chance: random.Random) -> None:
    """All processes of the node are stopped; the address leads to another one 2 s later, and its sessions stay."""
    database.node.hang()
    _follow_another(database, chance, cut=False)


def _partition(database: GaleraDatabase, chance: random.Random) -> None:
    """The node is cut off from the others; the address leads to another one 2 s later, and its sessions stay."""
    database.node.cut_off()
    _follow_another(database, chance, cut=False)


def _drain(database: GaleraDatabase, chance: random.Random) -> None:
    """The address leads to another node, and the old one ends in order."""
    old = database.node
    _follow_another(database, chance, noticed_s=0)
    old.stop()


def _restart(database: GaleraDatabase, chance: random.Random) -> None:
    """Every node ends in order and starts again, one after the other, the one that takes the writes as the last."""
    for node in [*database.others, database.node]:
        if node is database.node:
            _follow_another(database, chance, noticed_s=0)
        node.stop()
        node.start()
        database.cluster.wait_for_members()


def _follow_another(
    database: GaleraDatabase, chance: random.Random, cut: bool = True, noticed_s: float = NOTICED_S
) -> None:
    time.sleep(noticed_s)
    database.follow(chance.choice(database.others), cut)


SCENARIOS = scenarios(
    "galera",
    GALERA_CLUSTER,
    {"kill": _kill, "stop": _stop, "partition": _partition, "drain": _drain, "restart": _restart},
)
