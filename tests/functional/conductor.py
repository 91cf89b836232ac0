# SPDX-License-Identifier: Apache-2.0
"""A whole conductor over a real database, with fakes for its neighbours and a clock that is moved."""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable, Mapping
from typing import Any

import oslo_messaging

from conductor_stub.agents.api import AgentAPI
from conductor_stub.attachments.intake import AttachmentIntake
from conductor_stub.attachments.progress import AttachmentManager
from conductor_stub.attachments.reservations import Reservations
from conductor_stub.attachments.sweeper import AttachmentSweeper
from conductor_stub.builds.intake import Intake
from conductor_stub.builds.placement import BuildPlacement
from conductor_stub.builds.room_queue import RoomQueue
from conductor_stub.builds.sweeper import BuildSweeper
from conductor_stub.builds.termination import Termination
from conductor_stub.moves.intake import MoveIntake
from conductor_stub.moves.placement import MovePlacement
from conductor_stub.moves.progress import MoveProgress
from conductor_stub.moves.sweeper import MoveSweeper
from conductor_stub.operators.announcements import Announcements
from conductor_stub.operators.catalog import CatalogManager
from conductor_stub.operators.console import ConsoleManager
from conductor_stub.operators.details import DetailsManager
from conductor_stub.operators.diagnosis import Diagnosis
from conductor_stub.operators.dry_run import DryRun
from conductor_stub.operators.events import EventsManager
from conductor_stub.operators.groups import GroupManager
from conductor_stub.operators.key_pairs import KeyPairManager
from conductor_stub.operators.manager import OperatorManager
from conductor_stub.operators.quotas import QuotaManager
from conductor_stub.operators.use import UseManager
from conductor_stub.power.intake import PowerIntake
from conductor_stub.power.sweeper import PowerSweeper
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.volumes.creation import VolumeCreation
from conductor_stub.volumes.existing import ExistingIntake
from conductor_stub.volumes.intake import VolumeIntake
from conductor_stub.volumes.migrations import MigrationIntake
from conductor_stub.volumes.placement import VolumePlacement
from conductor_stub.volumes.progress import VolumeProgress
from conductor_stub.volumes.snapshots import SnapshotIntake
from conductor_stub.volumes.sweeper import VolumeSweeper
from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.hardware.aliases import Aliases
from fleet.objects import BuildRequest, Claim, Claimed, Finish, HostLimits, Instance
from fleet.rpc import batch_answers
from tests.clock import FakeClock
from tests.functional.trio_fakes import (
    FakeBackends,
    FakeCompute,
    FakeMoveTasks,
    FakeNotifier,
    FakeScheduler,
    FakeTasks,
    FakeVolumeScheduler,
    FakeVolumeTasks,
)

INCARNATION = "life-one"


class Conductor:
    def __init__(
        self,
        database: Database,
        limits: StepLimits | None = None,
        aliases: Aliases | None = None,
        same_host: bool = False,
        local: LocalPlacement | None = None,
        waits: Mapping[str, int] = types.MappingProxyType({}),
    ) -> None:
        self.database = database
        self.clock = FakeClock()
        self.limits = limits or StepLimits()
        self.scheduler, self.compute, self.tasks, self.notifier = (
            FakeScheduler(),
            FakeCompute(),
            FakeTasks(),
            FakeNotifier(),
        )
        self.placement = BuildPlacement(
            database,
            self.scheduler,  # type: ignore[arg-type]
            self.compute,  # type: ignore[arg-type]
            self.tasks,  # type: ignore[arg-type]
            self.notifier,
            self.limits,
            self.clock,
        )
        self.backends = FakeBackends()
        self.intake = Intake(
            *(database, self.placement, self.limits, None, self.clock, aliases or {}, local),
            waits=waits,
            reserving=Reservations(database, self.compute, self.backends),  # type: ignore[arg-type]
        )
        self.termination = Termination(database, self.compute, self.limits, self.clock)  # type: ignore[arg-type]
        self.agents = AgentAPI(database, self.limits, clock=self.clock)
        self.sweeper = BuildSweeper(database, self.placement, self.termination, self.limits, self.clock)
        self.room_queue = RoomQueue(database, self.placement, self.limits, self.clock)
        self.moves = FakeMoveTasks()
        self.move_placement = MovePlacement(
            database,
            self.scheduler,  # type: ignore[arg-type]
            self.compute,  # type: ignore[arg-type]
            self.moves,  # type: ignore[arg-type]
            self.limits,
            same_host,
            self.clock,
        )
        self.move_intake = MoveIntake(database, self.move_placement, aliases or {})
        self.move_progress = MoveProgress(database, self.move_placement, self.limits)
        self.move_sweeper = MoveSweeper(database, self.move_placement, self.limits, self.clock)
        self.power_intake = PowerIntake(database, self.compute, self.limits, self.clock)  # type: ignore[arg-type]
        self.power_sweeper = PowerSweeper(database, self.power_intake, self.limits, self.clock)
        self.volume_scheduler, self.volumes = FakeVolumeScheduler(), FakeVolumeTasks()
        self.volume_placement = VolumePlacement(
            database,
            self.volume_scheduler,  # type: ignore[arg-type]
            self.backends,  # type: ignore[arg-type]
            self.volumes,  # type: ignore[arg-type]
            self.limits,
            self.clock,
        )
        self.volume_creation = VolumeCreation(
            database, self.volume_placement, local=local, default_quota=self.limits.default_quota
        )
        self.volume_progress = VolumeProgress(database, self.volume_placement)
        self.volume_sweeper = VolumeSweeper(database, self.volume_placement, self.limits, self.clock)
        self.attachments = AttachmentIntake(
            database,
            self.compute,  # type: ignore[arg-type]
            self.backends,  # type: ignore[arg-type]
            self.limits,
            self.clock,
        )
        self.attachment_sweeper = AttachmentSweeper(database, self.attachments, self.limits, self.clock)
        #: What hosts call.
        self.hosts = Operator(AttachmentManager(database, self.limits, self.clock))
        self.operator = Operator(
            OperatorManager(
                database,
                self.limits.service_down_time_s,
                DryRun(database, self.intake, self.placement),
                Diagnosis(database, "conductor", self.clock),
                self.clock,
            ),
            self.move_intake,
            self.power_intake,
            self.attachments,
            CatalogManager(database, Announcements(database, self.scheduler), self.clock),  # type: ignore[arg-type]
            GroupManager(database, self.limits.default_quota, self.clock),
            QuotaManager(database, self.limits.default_quota),
            KeyPairManager(database, self.clock),
            ConsoleManager(database, self.compute),  # type: ignore[arg-type]
            DetailsManager(database, self.clock),
            EventsManager(database, self.clock),
            UseManager(database, self.clock),
            VolumeIntake(database, self.volume_placement, self.volume_creation),
            SnapshotIntake(database, self.volume_placement),
            MigrationIntake(database, self.volume_placement),
            ExistingIntake(database, self.volume_placement, self.volume_creation, self.backends),  # type: ignore[arg-type]
        )

    def add_host(self, host: str, memory_mb: int = 8000, stats: Any = None, **service: Any) -> None:
        service = {"incarnation": INCARNATION, **service, "host": host, "binary": "fleet-compute", "topic": "compute"}
        self.agents.register_services([service])
        report = {"host": host, "node": host, "vcpus": 8, "memory_mb": memory_mb, "local_gb": 100, "stats": stats or {}}
        answers = self.agents.report_hosts([report], {host: [host]})
        assert [answer["accepted"] for answer in answers] == [True]

    def add_backend(self, host: str, *pools: str, **capabilities: Any) -> None:
        """A storage backend that is up, with pools of 100 GiB."""
        service = {"incarnation": INCARNATION, "host": host, "binary": "fleet-volume", "topic": "volume"}
        self.agents.register_services([service])
        known = {"total_capacity_gb": 100, "free_capacity_gb": 100, **capabilities}
        reports = [{"host": host, "pool": pool, "capabilities": known} for pool in pools]
        answers = self.volume_progress.report(reports, {host: pools})
        assert all(answer["accepted"] for answer in answers), answers

    def create(self, **request: Any) -> list[str]:
        """Accept a request and return its uuids; nothing is placed yet."""
        request.setdefault("flavor", {"vcpus": 1, "memory_mb": 1024, "root_gb": 10})
        accepted = self.intake.accept(context(), BuildRequest.from_wire(request))
        return [each["uuid"] for each in accepted["instances"]]

    def work(self) -> int:
        """Do what was handed out to conductor workers; how many messages there were."""
        return self.tasks.deliver(self.placement.place)

    def place(self, host: str, *alternates: str, **request: Any) -> str:
        """One instance, on its way to ``host``."""
        self.scheduler.answers.append([(host, alternates)])
        (uuid,) = self.create(**request)
        self.work()
        return uuid

    def place_move(self, asked: RequestContext, uuid: str, attempt: int) -> None:
        self.move_placement.place(asked, [uuid], attempt)

    def claim(
        self, uuid: str, host: str, attempt: int = 1, limits: HostLimits | None = None, **hardware: Any
    ) -> Instance:
        claim = Claimed(memory_mb=1024, disk_gb=10, vcpus=1, **hardware)
        return self.agents.take(context(), Claim(uuid, attempt, host, host, INCARNATION, claim, limits))

    def finish(self, uuid: str, host: str, attempt: int = 1) -> Instance:
        return self.agents.take(context(), Finish(uuid, attempt, host, 1))

    def state(self, uuid: str) -> tuple[str, str | None, int, str | None]:
        """vm_state, task_state, attempt, host."""
        found = self.operator.show_instance(uuid)["instance"]
        return found["vm_state"], found["task_state"], found["attempt"], found["host"]

    def faults(self, uuid: str) -> list[dict[str, Any]]:
        return self.operator.show_instance(uuid)["faults"]

    def events(self, uuid: str) -> list[dict[str, Any]]:
        return self.operator.show_instance(uuid)["events"]

    def memory_used(self, host: str) -> int:
        (node,) = self.operator.show_host(host)["nodes"]
        return node["memory_mb_used"]


class Operator:
    """Calls endpoints as a client does. Arguments may be positional; the context is added."""

    def __init__(self, *endpoints: object, asking: Callable[[], RequestContext] | None = None) -> None:
        self._endpoints = endpoints
        self._asking = asking or context

    def under(self, project: str, is_admin: bool = True) -> Operator:
        """The same, for a client of another project.

        :param is_admin: False: it acts for the project only
        """
        return Operator(*self._endpoints, asking=lambda: context(project, is_admin))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = next(getattr(each, name) for each in self._endpoints if hasattr(each, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = inspect.signature(method).bind(self._asking(), *args, **kwargs).arguments
            try:
                return method(arguments.pop("context"), **arguments)
            except oslo_messaging.ExpectedException as expected:
                raise expected.exc_info[1] from None

        return call


def context(project: str = "tenant", is_admin: bool = True) -> RequestContext:
    made = new_context(project_id=project, user_id="user")
    made.is_admin = is_admin
    return made


def step_answer(answer: dict[str, Any]) -> Any:
    """Return what an agent reads from the answer to one of its steps: the result, or the refusal."""
    try:
        return batch_answers.read(json.loads(json.dumps(answer)))
    except (errors.FleetError, oslo_messaging.RemoteError) as refusal:
        return refusal
