# SPDX-License-Identifier: Apache-2.0
"""A conductor with two storage backends, for functional tests of volumes: the test plays the agents."""

from __future__ import annotations

from typing import Any

from conductor_stub.steps.attempt import Attempt, Failure
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from fleet.db.engine.database import Database
from fleet.db.volumes import pools
from fleet.db.volumes import volumes as rows
from tests.worlds.conductor import Conductor, context

A, B = ("m1@fast", "p1"), ("m2@slow", "p2")
LIMITS = StepLimits(max_attempts=2, claim_refusals=2)


class Volumes(Conductor):
    """A conductor with two backends of 100 GiB, one pool each."""

    def __init__(self, database: Database, local: LocalPlacement | None = None) -> None:
        super().__init__(database, LIMITS, local=local)
        for host, pool in (A, B):
            self.add_backend(host, pool, location_info=f"directory:/srv/{pool}")

    def ask(self, *places: tuple[str, str], **request: Any) -> str:
        """One volume, which the scheduler wants to have on the first of ``places``."""
        self.volume_scheduler.answers.append(places)
        (made,) = self.operator.create_volumes({"size": 10, **request})["volumes"]
        self.serve()
        return made["uuid"]

    def serve(self) -> int:
        """Do what was handed out to conductor workers; how many messages there were."""
        return self.volumes.deliver(self.volume_placement.place)

    def row(self, uuid: str) -> tuple[str, str | None, int, str | None]:
        """Status, step, attempt and location."""
        found = self.operator.show_volume(uuid)
        return found["status"], found["step"], found["attempt"], found["host"]

    def done(self, uuid: str, status: str = "creating", host: str = A[0], attempt: int | None = None) -> str:
        """The agent reports its part as done. :param attempt: that of the row, if it is not given"""
        number = self.database.read(rows.get, uuid).attempt if attempt is None else attempt
        return self.volume_progress.done(context(), Attempt(uuid, number, host), status).status

    def fails(
        self,
        uuid: str,
        host: str = A[0],
        attempt: int | None = None,
        step: str = "creating",
        status: str = "creating",
        size_gb: int | None = None,
    ) -> None:
        number = self.database.read(rows.get, uuid).attempt if attempt is None else attempt
        failure = Failure(step, "OSError", "the disk is full", size_gb=size_gb)
        self.volume_progress.fail(context(), Attempt(uuid, number, host), status, failure)

    def available(self, **request: Any) -> str:
        """One volume on the first backend."""
        uuid = self.ask(A, **request)
        self.done(uuid)
        return uuid

    def allocated(self) -> list[tuple[int, int]]:
        """GiB and number of volumes of each pool."""
        rows = self.database.read(pools.list_all)
        return [(row.allocated_capacity_gb, row.total_volumes) for row in rows]
