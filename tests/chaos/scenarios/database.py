# SPDX-License-Identifier: Apache-2.0
"""The database goes away, locks, refuses, or leaves a commit's outcome unknown."""

from __future__ import annotations

import random
import time

import sqlalchemy as sa

from fleet.failpoints import names
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

_AWAY = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'fleet' AND pid <> pg_backend_pid()"


def restart(world: ChaosWorld, chance: random.Random) -> None:
    """The server is killed and started again while builds are at every step."""
    for _request in range(6):
        world.boot(5)
    time.sleep(chance.uniform(0, 0.5))
    world.database.kill()
    world.database.start()
    world.settle()


def outage(world: ChaosWorld, chance: random.Random) -> None:
    """No database for twelve seconds."""
    world.unruly({"host": "*", "do": "hang", "seconds": 0.5})
    world.boot(12)
    world.database.stop()
    time.sleep(12)
    world.database.start()
    world.boot_until_told(6)
    world.settle()


def half_open(world: ChaosWorld, chance: random.Random) -> None:
    """Connections to the database carry nothing for ten seconds; then all of them end."""
    world.boot(12)
    world.to_database.freeze()
    time.sleep(10)
    world.to_database.heal()
    world.to_database.cut()
    world.boot_until_told(6)
    world.settle()


def locked(world: ChaosWorld, chance: random.Random) -> None:
    """Another session holds locks on all instances and hosts for eight seconds."""
    world.boot(6)
    with world.transaction() as connection:
        connection.execute(sa.text("SELECT 1 FROM instances FOR UPDATE"))
        connection.execute(sa.text("SELECT 1 FROM compute_nodes FOR UPDATE"))
        world.boot(6)
        time.sleep(8)
    world.settle()


def lock_timeout(world: ChaosWorld, chance: random.Random) -> None:
    """The same with a server that gives up waiting after a second: transactions fail and are tried again."""
    world.database.execute("ALTER DATABASE fleet SET lock_timeout = '1s'")
    world.database.execute(_AWAY)
    try:
        locked(world, chance)
    finally:
        world.database.execute("ALTER DATABASE fleet RESET lock_timeout")
        world.database.execute(_AWAY)


def deadlocks(world: ChaosWorld, chance: random.Random) -> None:
    """Three transactions in ten fail with a deadlock and are repeated."""
    _everywhere(world, "before_commit", {"action": "deadlock", "chance": 0.3, "seed": chance.randrange(1000)})


def unknown_outcome(world: ChaosWorld, chance: random.Random) -> None:
    """Three commits in ten succeed but report a failure."""
    _everywhere(world, "after_commit", {"action": "disconnect", "chance": 0.3, "seed": chance.randrange(1000)})


def _everywhere(world: ChaosWorld, when: str, point: dict) -> None:
    world.arm({f"{step}.{when}": point for step in names.TRANSACTIONS})
    world.unruly({"host": "a1", "do": "fail"})
    for _request in range(6):
        world.boot(5)
    world.settle()
    world.terminate([row["uuid"] for row in world.builds()][:15])
    world.settle()


def read_only(world: ChaosWorld, chance: random.Random) -> None:
    """The database takes no writes for eight seconds, as a replica after a fail-over."""
    world.boot(6)
    world.database.execute("ALTER DATABASE fleet SET default_transaction_read_only = on")
    world.database.execute(_AWAY)
    time.sleep(8)
    world.database.execute("ALTER DATABASE fleet RESET default_transaction_read_only")
    world.database.execute(_AWAY)
    world.boot_until_told(6)
    world.settle()


def refuses_rows(world: ChaosWorld, chance: random.Random) -> None:
    """The database refuses rows for a while, and shows all that is in them as it does so."""
    world.boot(6)
    for table in ("build_requests", "instances", "instance_events"):
        constraint = f"ALTER TABLE {table} ADD CONSTRAINT planted CHECK (created_at IS NULL) NOT VALID"
        world.sql(constraint)
        for _request in range(3):
            world.boot(3)
        time.sleep(chance.uniform(1, 2))
        world.sql(f"ALTER TABLE {table} DROP CONSTRAINT planted")
    world.until(lambda: world.refusals)
    world.boot_until_told(6)
    world.settle()


SCENARIOS = [
    Scenario("database:kill-restart", restart, short=True),
    Scenario("database:outage-12s", outage),
    Scenario("database:half-open", half_open),
    Scenario("database:rows-locked", locked),
    Scenario("database:lock-timeout", lock_timeout),
    Scenario("database:deadlocks", deadlocks),
    Scenario("database:unknown-outcome", unknown_outcome),
    Scenario("database:read-only", read_only),
    Scenario("database:refuses-rows", refuses_rows),
]
