# SPDX-License-Identifier: Apache-2.0
"""Faults of a database cluster under load: how long nothing is accepted, and that nothing that was accepted is lost."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.chaos.client_load import ClientLoad
from tests.chaos.disks import Disks
from tests.chaos.run import Scenario
from tests.chaos.world import ChaosWorld

#: Seconds from the death of a server to the next accepted request, at most.
LIMIT_S = 15.0
#: How long a tool takes to find that a server is lost.
NOTICED_S = 2.0
#: Load between two faults.
_BETWEEN_S = 4.0
Fault = Callable[[Any, random.Random], None]


def scenarios(cluster: str, servers: str, faults: Mapping[str, Fault]) -> list[Scenario]:
    """One for each fault, and one for all of them in random order."""
    made = [_scenario(f"{cluster}-{name}", servers, {name: fault}, 2) for name, fault in faults.items()]
    return [*made, _scenario(f"{cluster}-random", servers, faults, 7)]


def _scenario(name: str, servers: str, faults: Mapping[str, Fault], count: int) -> Scenario:
    def hurt(world: ChaosWorld, chance: random.Random) -> None:
        under_load(world, chance, faults, chance.choices(sorted(faults), k=count))

    only = (fault.__doc__ for fault in faults.values())
    hurt.__doc__ = next(only) if len(faults) == 1 else f"{count} of these faults in random order."
    return Scenario(f"cluster:{name}", hurt, servers=servers)


def under_load(world: ChaosWorld, chance: random.Random, faults: Mapping[str, Fault], names: Iterable[str]) -> None:
    """Hurt and heal the database, once for each name, while clients go on."""
    disks = Disks(world, ("p",))
    disks.start()
    load = ClientLoad(world, disks, chance)
    with load.running():
        for number, name in enumerate(names):
            time.sleep(chance.uniform(_BETWEEN_S / 2, _BETWEEN_S))
            under_way, began = len(world.unsettled()), time.monotonic()
            faults[name](world.database, chance)
            took_s = time.monotonic() - began
            stopped_s = load.stopped_s(began)
            world.measured |= {
                f"{number}-{name}-under-way": under_way,
                f"{number}-{name}-fault-s": round(took_s, 1),
                f"{number}-{name}-stopped-s": round(stopped_s, 1),
            }
            time.sleep(chance.uniform(_BETWEEN_S / 2, _BETWEEN_S))
            world.servers.heal()
    world.settle()
    disks.end()
    lost = load.lost()
    world.measured |= {"promised": len(load.promised) + len(load.promised_volumes), "lost": len(lost)}
    world.measured["repeated"] = sum(row["attempt"] > 1 for row in world.builds())
    assert not lost, f"{len(lost)} promised instances and volumes are not in the ledger: {lost[:5]}"
    late = {name: figure for name, figure in world.measured.items() if name.endswith("stopped-s") and figure > LIMIT_S}
    assert not late, f"nothing was accepted for more than {LIMIT_S:g} s: {late}"
