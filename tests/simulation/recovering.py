# SPDX-License-Identifier: Apache-2.0
"""Seeds with recovery: a host dies for good, or is only cut off, in the middle of everything else that goes wrong."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa

from conductor_stub.steps.fence import Order, Outcome
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import recovery_states, states
from fleet.db.tables import models
from tests.simulation import processes
from tests.simulation.scenario import AGENTS, Scenario

SETTINGS = RecoverySettings(enabled=True, fence_command=["/sbin/off"], wait_time_s=30, fence_timeout_s=30, parallel=2)
#: The agent that does not come back while there is trouble, and its host.
AGENT, HOST = "a2", "h3"
#: Seconds after the calm at which the host is there again: by then its guests are elsewhere, or have found no room.
BACK_S = 600.0

_OPEN = sa.select(models.recoveries.c.uuid).where(
    models.recoveries.c.status.in_((recovery_states.FENCING, recovery_states.MOVING))
)
_GUESTS = sa.select(models.recovery_guests.c.instance_uuid, models.recoveries.c.host).join(
    models.recoveries, models.recoveries.c.uuid == models.recovery_guests.c.recovery_uuid
)
_STATUSES = sa.select(models.recoveries.c.status)
_PLANS = sa.select(models.migrations.c.status, models.migrations.c.plan)


class Recovering(Scenario):
    TROUBLE_S = 180.0
    GUEST_DIES = 0.01
    ACTS = ("resize",)
    #: The chance that the lost host dies with its guests; otherwise they run on.
    DIES = 0.7

    def _start(self, name: str) -> None:
        if name == AGENT and self._lives[name] == 0:
            self._world.after(self._world.chance.choice([20.0, 35.0, 50.0]), self._lose)
        super()._start(name)

    def _lose(self) -> None:
        """The host dies with its guests, or its agent alone is silent for good."""
        self._lost = True
        if self._world.chance.random() < self.DIES:
            self._power_off(HOST)
        self._world.met["host lost"] += 1
        if self._processes[AGENT].alive:
            self._world.kill(self._processes[AGENT])

    def _returns(self, name: str) -> bool:
        return name != AGENT or not self._lost

    def _calm_down(self) -> None:
        super()._calm_down()
        if self._lost:
            self._world.after(BACK_S, self._bring_back)

    def _bring_back(self) -> None:
        self._lost = False
        self._revive(self._processes[AGENT])

    def _power_off(self, host: str) -> None:
        for guest in self._hypervisors[host].guests.values():
            guest["dead"] = True

    def _fence(self, order: Order) -> Outcome:
        self._world.sleep(self._world.chance.choice([0.1, 5.0, 60.0]))
        if self._world.happens("fence fails", 0.3):
            return Outcome(False, "the fence failed: exit status 1")
        self._world.log("%s is fenced", order.host)
        self._power_off(order.host)
        (agent,) = [name for name, hosts in AGENTS.items() if order.host in hosts]
        self._die(agent)
        return Outcome(True, "the host is off")

    def _conductor(self, name: str) -> processes.Process:
        return processes.start_conductor(self._world, self._bus, self._database, name, SETTINGS, self._fence)

    def _wrong_now(self) -> list[str]:
        """No guest runs on the host that it is recovered from, and elsewhere too."""
        wrong = super()._wrong_now()
        for row in self._database.rows(_GUESTS):
            running = {
                host
                for host, each in self._hypervisors.items()
                if each.power_state(row.instance_uuid) == states.RUNNING
            }
            if row.host in running and len(running) > 1:
                wrong.append(f"I2: {row.instance_uuid} runs on {sorted(running)}, it is recovered from {row.host}")
        return wrong

    def _unsettled(self) -> Iterator[bool]:
        yield bool(self._database.rows(_OPEN))
        yield from super()._unsettled()

    def _ended(self) -> dict[str, int]:
        found = super()._ended()
        for row in self._database.rows(_STATUSES):
            name = f"recovery {row.status}"
            found[name] = found.get(name, 0) + 1
        for row in self._database.rows(_PLANS):
            if (row.plan or {}).get("confirms"):
                name = f"dying guest's move {row.status}"
                found[name] = found.get(name, 0) + 1
        return found
