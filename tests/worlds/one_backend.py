# SPDX-License-Identifier: Apache-2.0
"""One storage backend of a volume agent over a ledger in memory, for unit tests of the agent's parts."""

from __future__ import annotations

import threading
from typing import Any

from fleet.agent.patience import Patience
from fleet.context import new_context
from fleet.objects import Volume
from tests.unit.volume_agent.builders import backend, options
from tests.worlds.storage_ledger import StorageLedger
from volume_agent.drivers.fake import FakeDriver
from volume_agent.ledger.volume_calls import VolumeCalls
from volume_agent.work import recovery
from volume_agent.work.volume import VolumeWorker

GIVEN_UP = threading.Event()
GIVEN_UP.set()


def calls(conductor: StorageLedger, patience: Patience) -> VolumeCalls:
    return VolumeCalls(conductor, patience, limit_s=0)  # type: ignore[arg-type]


class OneBackend:
    """A backend with the pool p1 of 100 GiB, and the conductor that it calls."""

    def __init__(self, *volumes: Volume, **given: Any) -> None:
        self.conductor = StorageLedger(*volumes)
        self.driver = FakeDriver(options(**{"fake_pools": {"p1": "100"}, **given}))
        self.backend = backend(self.driver)
        self.calls = calls(self.conductor, Patience(GIVEN_UP))
        self.worker = VolumeWorker(self.backend, self.calls)
        self.ordered: list[str] = []

    def run(self, uuid: str) -> None:
        self.worker.run(new_context(), uuid)

    def recover(self) -> None:
        recovery.recover(new_context(), self.backend, self.calls, lambda _context, uuid: self.ordered.append(uuid))

    def status(self, uuid: str) -> str:
        return self.conductor.volumes[uuid].status
