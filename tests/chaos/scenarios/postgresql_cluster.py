# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL primary with two synchronous standbys: it dies, hangs, vanishes, or hands over."""

from __future__ import annotations

import random
import time

from tests.chaos.database_clusters import POSTGRESQL_CLUSTER, PostgreSQLDatabase
from tests.chaos.scenarios.database_faults import NOTICED_S, scenarios


def _kill(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """The primary is killed; a standby is promoted 2 s later."""
    database.end(database.cluster.primary)
    _promote(database)


def _hang(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """All processes of the primary are stopped; a standby is promoted 2 s later."""
    database.cluster.primary.hang()
    _promote(database)


def _hang_and_go_on(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """As before, and the old primary goes on when the standby is promoted, as if it were the primary still."""
    primary = database.cluster.primary
    _hang(database, chance)
    primary.resume()


def _vanish(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """No packet comes through to the primary or from it; a standby is promoted 2 s later."""
    database.to_nodes[database.cluster.primary.name].freeze()
    _promote(database)


def _switch_over(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """The primary stops in order, and a standby is promoted."""
    database.end(database.cluster.primary, in_order=True)
    database.fail_over()


def _restart(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """The primary is killed, and started again 2 s later; no standby is promoted."""
    primary = database.cluster.primary
    database.end(primary)
    time.sleep(NOTICED_S)
    database.start(primary)


def _lose_a_standby(database: PostgreSQLDatabase, chance: random.Random) -> None:
    """A standby is killed; the other one alone confirms commits."""
    database.end(chance.choice(database.cluster.standbys))


def _promote(database: PostgreSQLDatabase) -> None:
    time.sleep(NOTICED_S)
    database.fail_over()


SCENARIOS = scenarios(
    "postgresql",
    POSTGRESQL_CLUSTER,
    {
        "kill": _kill,
        "hang": _hang,
        "stranger": _hang_and_go_on,
        "vanish": _vanish,
        "switchover": _switch_over,
        "restart": _restart,
        "standby-lost": _lose_a_standby,
    },
)
