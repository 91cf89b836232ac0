# SPDX-License-Identifier: Apache-2.0
"""A whole conductor over a real database, for functional tests: its neighbours are fakes, and the test moves its clock."""

from __future__ import annotations

import collections
import inspect
import json
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import oslo_messaging

from conductor_stub import wiring
from conductor_stub.parts import Clients, Common, Settings
from conductor_stub.steps.balance_settings import BalanceSettings
from conductor_stub.steps.fence import Order, Outcome
from conductor_stub.steps.hook import Ended
from conductor_stub.steps.limits import StepLimits
from conductor_stub.steps.local_placement import LocalPlacement
from conductor_stub.steps.maintenance_settings import MaintenanceSettings
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import conf as fleet_conf
from fleet import errors
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.hardware.aliases import Aliases
from fleet.objects import BuildRequest, Claim, Claimed, Finish, HostLimits, Instance
from fleet.rpc import batch_answers
from fleet.rpc.pins import Pins
from tests.clock import FakeClock
from tests.configuration import configuration
from tests.worlds import answer_types, neighbours

INCARNATION = "life-one"
NOT_RECOVERED = RecoverySettings()
NO_HOOKS = MaintenanceSettings()
BALANCED = BalanceSettings()


class Conductor:
    """The product's own parts. ``scheduler``, ``compute``, ``tasks`` and their like are fakes."""

    def __init__(
        self,
        database: Database,
        limits: StepLimits | None = None,
        aliases: Aliases | None = None,
        same_host: bool = False,
        local: LocalPlacement | None = None,
        waits: Mapping[str, int] = types.MappingProxyType({}),
        recovery: RecoverySettings = NOT_RECOVERED,
        clock: FakeClock | None = None,
        maintenance: MaintenanceSettings = NO_HOOKS,
        balance: BalanceSettings = BALANCED,
    ) -> None:
        self.database = database
        self.clock = clock or FakeClock()
        self.limits = limits or StepLimits()
        self.scheduler, self.volume_scheduler = neighbours.FakeScheduler(), neighbours.FakeVolumeScheduler()
        self.compute, self.backends = neighbours.FakeCompute(), neighbours.FakeBackends()
        self.tasks, self.moves = neighbours.FakeTasks(), neighbours.FakeMoveTasks()
        self.volumes, self.notifier = neighbours.FakeVolumeTasks(), neighbours.FakeNotifier()
        clients = Clients(
            *(self.scheduler, self.compute, self.volume_scheduler, self.backends),  # type: ignore[arg-type]
            *(self.tasks, self.moves, self.volumes, self.notifier),  # type: ignore[arg-type]
        )
        settings = Settings(
            aliases=aliases or {},
            waits=waits,
            same_host=same_host,
            recovery=recovery,
            maintenance=maintenance,
            balance=balance,
        )
        #: Fences that were begun and not run yet, the orders that were run, and how the next ones end.
        self.fences: list[Callable[[], object]] = []
        self.fenced: list[Order] = []
        self.hooked: list[tuple[tuple[str, ...], str]] = []
        #: How long each fence and hook runs.
        self.commands_take_s = 0.0
        self.hook_ends: collections.deque[Ended] = collections.deque()
        self.outcomes: collections.deque[Outcome] = collections.deque()
        pins = Pins(configuration(fleet_conf.register_opts))
        parts = wiring.wire(
            Common(
                *(database, clients, self.limits, settings, self.clock, self.clock, pins),
                local=local,
                fence=self._fence,
                hook=self._hook,
                spawn=self.fences.append,
            )
        )
        self.keeper = parts.recovery.keeper
        self.maintenance_keeper = parts.maintenance.keeper
        self.balance_keeper = parts.balance.keeper
        builds, moves, volumes = parts.builds, parts.moves, parts.volumes
        self.agents, (self.agent_manager,) = parts.agents.api, parts.agents.endpoints
        self.intake, self.placement, self.termination = builds.intake, builds.placement, builds.termination
        self.sweeper, self.room_queue = builds.sweeper, builds.room_queue
        self.unjudged = builds.unjudged
        self.move_intake, self.move_placement = moves.intake, moves.placement
        self.move_progress, self.move_sweeper = moves.progress, moves.sweeper
        self.power_sweeper = parts.power.sweeper
        self.volume_creation, self.volume_placement = volumes.creation, volumes.placement
        self.volume_progress, self.volume_sweeper = volumes.progress, volumes.sweeper
        self.attachments, self.attachment_sweeper = parts.attachments.intake, parts.attachments.sweeper
        #: What hosts call.
        self.hosts = Operator(parts.attachments.manager)
        self.operator = Operator(
            *(endpoint for part in parts for endpoint in part.endpoints if endpoint.target.namespace == "operator")
        )

    def _fence(self, order: Order) -> Outcome:
        self.fenced.append(order)
        self.clock.advance(self.commands_take_s)
        return self.outcomes.popleft() if self.outcomes else Outcome(True, "the fence succeeded")

    def _hook(self, command: Sequence[str], environment: Mapping[str, str], timeout_s: float, what: str) -> Ended:
        self.hooked.append((tuple(command), environment["FLEET_HOOK_ATTEMPT"]))
        self.clock.advance(self.commands_take_s)
        return self.hook_ends.popleft() if self.hook_ends else Ended(True, f"{what} succeeded")

    def run_fences(self) -> None:
        """Let the fences that were begun come to their ends."""
        while self.fences:
            self.fences.pop(0)()

    def add_host(self, host: str, **known: Any) -> None:
        """A host that is up. :param known: as for :meth:`add_hosts`"""
        self.add_hosts([host], **known)

    def add_hosts(
        self,
        hosts: Sequence[str],
        memory_mb: int = 8000,
        stats: Any = None,
        cpu_info: str = "",
        guest_loads: Mapping[str, Any] = types.MappingProxyType({}),
        **service: Any,
    ) -> None:
        """Equal hosts of one agent that is up. :param service: of the registration, such as its ``incarnation``"""
        service = {"incarnation": INCARNATION, **service, "binary": "fleet-compute", "topic": "compute"}
        self.agents.register_services([{**service, "host": host} for host in hosts])
        sizes = {"vcpus": 8, "memory_mb": memory_mb, "local_gb": 100}
        report = {**sizes, "stats": stats or {}, "cpu_info": cpu_info, "guest_loads": dict(guest_loads)}
        reports = [{**report, "host": host, "node": host} for host in hosts]
        answers = self.agents.report_hosts(reports, {host: [host] for host in hosts})
        assert all(answer["accepted"] for answer in answers), answers

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
        self.endpoints = endpoints
        self._asking = asking or context

    def under(self, project: str, is_admin: bool = True) -> Operator:
        """The same, for a client of another project.

        :param is_admin: False: it acts for the project only
        """
        return Operator(*self.endpoints, asking=lambda: context(project, is_admin))

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = next(getattr(each, name) for each in self.endpoints if hasattr(each, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            arguments = inspect.signature(method).bind(self._asking(), *args, **kwargs).arguments
            try:
                answer = method(arguments.pop("context"), **arguments)
            except oslo_messaging.ExpectedException as expected:
                raise expected.exc_info[1] from None
            answer_types.require("list_brief" if kwargs.get("brief") else name, answer)
            return answer

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
