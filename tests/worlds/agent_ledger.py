# SPDX-License-Identifier: Apache-2.0
"""The ledger of instances in memory, for tests of compute agents: the calls of ``ConductorAPI`` and ``ComputeTaskAPI``.

The ledger moves rows as the real one does (see ``fleet.states``), and calls may be repeated as there. ``script`` makes the
next calls of a method fail, before they are done or after: an answer lost on its way.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from fleet import errors, states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, FailedAttempt, HostReport, Instance
from fleet.objects.answers.catalog import ImageView
from fleet.objects.answers.instances import AcceptedRequest
from fleet.rpc import batch_answers


@dataclasses.dataclass(frozen=True)
class _Scripted:
    error: Exception
    done: bool


_Method = TypeVar("_Method", bound=Callable[..., Any])


def _served(method: _Method) -> _Method:
    """Record a call, and let it fail as its script says, before it is done or after."""

    @functools.wraps(method)
    def serve(ledger: AgentLedger, *arguments: Any, **more: Any) -> Any:
        with ledger._lock:
            ledger.calls.append(method.__name__)
            script = ledger._script[method.__name__]
            scripted = script.popleft() if script else None
            answer = method(ledger, *arguments, **more) if scripted is None or scripted.done else None
            if scripted is not None:
                raise scripted.error
            return answer

    return serve  # type: ignore[return-value]


class AgentLedger:
    """Both APIs in one object. ``calls`` are the names of the methods, in order; ``rows`` the instances by uuid."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._script: dict[str, collections.deque[_Scripted]] = collections.defaultdict(collections.deque)
        self.calls: list[str] = []
        self.rows: dict[str, Instance] = {}
        #: More instances make an answer too large; None: no number does.
        self.most_in_an_answer: int | None = None
        #: With which claims were made, by instance uuid.
        self.limits: dict[str, JSONObject] = {}
        self.incarnations: dict[str, str] = {}
        self.reports: dict[tuple[str, str], HostReport] = {}
        self.nodes: dict[str, list[str]] = {}
        self.alarms: dict[str, str] = {}
        #: Hosts that a heartbeat is told have an alarm.
        self.alarmed: list[str] = []
        self.refused_nodes: dict[str, str] = {}
        #: What ``reschedule`` and ``abort_build`` were told, by instance uuid.
        self.rescheduled: dict[str, JSONObject] = {}
        self.aborted: dict[str, JSONObject] = {}
        self.violated_policy: str = ""
        #: By uuid. A host that could not attach a volume detaches it.
        self.attachments: dict[str, Attachment] = {}
        #: The arguments of ``power_done`` and ``attachment_done`` calls, by the instance's or the attachment's uuid.
        self.failures: dict[str, str] = {}
        #: What a heartbeat is told that the database's clock shows.
        self.now: str | None = None
        #: What ``reschedule`` answers: whether an attempt was spent.
        self.counts_attempts = True
        #: What ``restart_guest`` answers; nothing: as a conductor that is too old.
        self.fates: collections.deque[str] = collections.deque()
        self.asked_to_move = False

    def script(self, method: str, error: Exception, times: int = 1, done: bool = False) -> None:
        """Make the next ``times`` calls of ``method`` fail with ``error``, after they were done if ``done``."""
        self._script[method].extend([_Scripted(error, done)] * times)

    def place(self, instance: Instance, attempt: int = 1) -> Instance:
        """Return a row as the conductor leaves it when it has sent the build to a host."""
        return self._set(
            dataclasses.replace(instance, vm_state=states.BUILDING, task_state=states.PLACING, attempt=attempt)
        )

    def put(self, instance: Instance, **changes: Any) -> Instance:
        return self._set(dataclasses.replace(instance, **changes))

    # ConductorAPI

    @_served
    def register_services(self, context: RequestContext, services: list[JSONObject]) -> list[JSONObject]:
        self.incarnations.update({service["host"]: service["incarnation"] for service in services})
        return [self._registered(each) for each in services]

    @_served
    def require_free(self, context: RequestContext, services: list[JSONObject]) -> None:
        """It always succeeds."""

    @_served
    def leave(
        self, context: RequestContext, binary: str, hosts: list[str], incarnation: str, idle: bool = True
    ) -> None:
        """It always succeeds."""

    @_served
    def report_state(
        self,
        context: RequestContext,
        binary: str,
        hosts: list[str],
        incarnation: str,
        rpc_version: str | None = None,
        release: str | None = None,
        clock_skew_s: float = 0.0,
    ) -> JSONObject:
        superseded = [host for host in hosts if self.incarnations.get(host) != incarnation]
        return {"superseded": superseded, "alarmed": list(self.alarmed), "versions": {}, "now": self.now}

    @_served
    def report_hosts(
        self,
        context: RequestContext,
        reports: list[JSONObject],
        nodes: dict[str, list[str]],
        alarms: dict[str, str],
    ) -> list[JSONObject]:
        self.nodes.update(nodes)
        self.alarms.update(alarms)
        return [self._report(HostReport.from_wire(report)) for report in reports]

    @_served
    def get_host_instances(
        self, context: RequestContext, host: str, uuids: list[str] | None = None
    ) -> list[JSONObject]:
        found = [row.to_wire() for row in self._on_host(host) if uuids is None or row.uuid in uuids]
        if self.most_in_an_answer is not None and len(found) > self.most_in_an_answer:
            raise errors.InvalidInput(field="answer", reason="is too large: 16 MiB, and a message has at most 15")
        return found

    @_served
    def compare_instances(
        self, context: RequestContext, held: dict[str, list[str]], power: dict[str, dict[str, int]] | None = None
    ) -> dict[str, list[str]]:
        doubtful = {}
        for host, uuids in held.items():
            rows = self._on_host(host)
            spawning = {row.uuid for row in rows if row.task_state == states.SPAWNING}
            seen = (power or {}).get(host, {})
            other = {row.uuid for row in rows if seen.get(row.uuid, row.power_state) != row.power_state}
            doubtful[host] = sorted({*uuids} ^ {row.uuid for row in rows} | spawning | other)
        return doubtful

    @_served
    def report_guest(
        self,
        context: RequestContext,
        instance_uuid: str,
        host: str,
        power_state: int,
        expected: int,
        failed: bool = False,
    ) -> bool:
        row = self.rows[instance_uuid]
        if row.host != host or row.task_state is not None or row.power_state not in (expected, power_state):
            return False
        self.put(row, power_state=power_state, vm_state=states.ERROR if failed else row.vm_state)
        return True

    @_served
    def restart_guest(
        self, context: RequestContext, instance_uuid: str, host: str, power_state: int, limits: JSONObject, moves: bool
    ) -> JSONObject | None:
        if not self.fates:
            return None
        self.asked_to_move = moves
        return {"fate": self.fates.popleft(), "count": 2, "why": "it keeps dying"}

    @_served
    def get_image(self, context: RequestContext, image_id: str) -> ImageView:
        raise errors.NotFound(kind="Image", name=image_id)

    @_served
    def get_boot_data(self, context: RequestContext, instance_uuid: str, host: str) -> JSONObject:
        return {}

    @_served
    def power_done(
        self,
        context: RequestContext,
        instance_uuid: str,
        host: str,
        task_state: str,
        power_state: int,
        failure: str,
        attempt: int,
        deadline: str | None,
    ) -> bool:
        row = self.rows[instance_uuid]
        told = (host, task_state, attempt, deadline)
        if (row.host, row.task_state, row.attempt, row.task_deadline) != told:
            return False
        then = {
            states.POWERING_OFF: states.STOPPED,
            states.SUSPENDING: states.VM_SUSPENDED,
            states.SHELVING: states.SHELVED,
        }.get(task_state, "active")
        failed_then = row.vm_state
        if task_state == states.REBUILD_DISK:
            then = "stopped" if row.vm_state == "stopped" else "active"
            failed_then = "error"
        self.failures[instance_uuid] = failure
        self.put(row, task_state=None, power_state=power_state, vm_state=failed_then if failure else then)
        return True

    @_served
    def get_attachments(self, context: RequestContext, instance_uuid: str, host: str) -> list[JSONObject]:
        return [each.to_wire() for each in self.attachments.values() if each.instance_uuid == instance_uuid]

    @_served
    def attachment_done(
        self, context: RequestContext, attachment_uuid: str, host: str, status: str, attempt: int, failure: str
    ) -> JSONObject | None:
        row = self.attachments.get(attachment_uuid)
        if row is None or (row.status, row.attempt) != (status, attempt):
            return row and row.to_wire()
        if failure:
            self.failures[attachment_uuid] = failure
        then = {"attaching": "detaching" if failure else "attached", "detaching": "attached" if failure else None}
        del self.attachments[attachment_uuid]
        if then[status] is None:
            return None
        self.attachments[attachment_uuid] = dataclasses.replace(row, status=then[status], attempt=attempt + 1)
        return self.attachments[attachment_uuid].to_wire()

    @_served
    def claim_instance(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        node: str,
        incarnation: str,
        claim: JSONObject,
        limits: JSONObject | None = None,
    ) -> JSONObject:
        self.limits[instance_uuid] = limits or {}
        row = self._row(instance_uuid)
        if (row.task_state, row.attempt, row.host, row.node) == (states.SPAWNING, attempt, host, node):
            return row.to_wire()
        self._expect(row, attempt, states.PLACING)
        if self.incarnations.get(host, incarnation) != incarnation:
            raise errors.StaleIncarnation(host=host, pid=1, hostname="elsewhere", started_at="now")
        if self.violated_policy:
            raise errors.GroupAffinityViolation(
                instance_uuid=instance_uuid, host=host, policy=self.violated_policy, group_uuid="a group"
            )
        claimed = {f"claimed_{name}": amount for name, amount in claim.items()}
        return self.put(row, task_state=states.SPAWNING, host=host, node=node, **claimed).to_wire()

    @_served
    def finish_build(
        self,
        context: RequestContext,
        instance_uuid: str,
        attempt: int,
        host: str,
        power_state: int,
        incarnation: str,
    ) -> JSONObject:
        row = self._row(instance_uuid)
        if (row.vm_state, row.task_state, row.attempt, row.host) != (states.ACTIVE, None, attempt, host):
            self._expect(row, attempt, states.SPAWNING, host)
            if self.incarnations.get(host, incarnation) != incarnation:
                raise errors.StaleIncarnation(host=host, pid=1, hostname="elsewhere", started_at="now")
            row = self.put(row, vm_state=states.ACTIVE, task_state=None, power_state=power_state)
        return row.to_wire()

    def takes_steps(self) -> bool:
        return True

    @_served
    def build_steps(self, context: RequestContext, steps: list[JSONObject]) -> list[JSONObject]:
        return [self._step(context, **step) for step in steps]

    def _step(
        self, context: RequestContext, method: str, request_id: str, project_id: str, user_id: str, **arguments: Any
    ) -> JSONObject:
        try:
            return batch_answers.result(getattr(self, method)(context, **arguments))
        except errors.FleetError as refusal:
            return batch_answers.refusal(refusal)

    @_served
    def instance_destroyed(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        row = self.rows.get(instance_uuid)
        if row is not None and row.host == host:
            self._leave_host(row, vm_state=states.DELETED, task_state=None)

    # ComputeTaskAPI

    def takes_passwords(self) -> bool:
        return True

    def create(self, context: RequestContext, request: JSONObject, client_token: str | None = None) -> AcceptedRequest:
        raise NotImplementedError

    def build_instances(self, context: RequestContext, instance_uuids: list[str], attempt: int) -> None:
        raise NotImplementedError

    @_served
    def reschedule(self, context: RequestContext, failed: FailedAttempt, alternates: list[JSONObject]) -> bool:
        row = self._row(failed.instance_uuid)
        self._expect_step(row, failed.attempt)
        self.rescheduled[row.uuid] = {**failed.to_wire(), "alternates": alternates}
        self._leave_host(row, task_state=states.SCHEDULING, attempt=failed.attempt + 1)
        return self.counts_attempts

    @_served
    def abort_build(self, context: RequestContext, failed: FailedAttempt) -> None:
        row = self._row(failed.instance_uuid)
        self._expect_step(row, failed.attempt)
        self.aborted[row.uuid] = failed.to_wire()
        self._leave_host(row, vm_state=states.ERROR, task_state=None)

    def terminate_instances(self, context: RequestContext, instance_uuids: list[str]) -> None:
        raise NotImplementedError

    # How it is done

    def _registered(self, service: JSONObject) -> JSONObject:
        host, sizes = service["host"], ("vcpus", "memory_mb", "local_gb")
        nodes = [
            {"node": node, **{size: getattr(report, size) for size in sizes}}
            for (of_host, node), report in self.reports.items()
            if of_host == host
        ]
        return {"host": host, "binary": service["binary"], "disabled": False, "nodes": nodes}

    def _set(self, row: Instance) -> Instance:
        with self._lock:
            self.rows[row.uuid] = row
            return row

    def _on_host(self, host: str) -> list[Instance]:
        return [row for row in self.rows.values() if row.host == host and row.vm_state != states.DELETED]

    def _row(self, uuid: str) -> Instance:
        if uuid not in self.rows:
            raise errors.NotFound(kind="Instance", name=uuid)
        return self.rows[uuid]

    def _expect(self, row: Instance, attempt: int, step: str, host: str | None = None) -> None:
        expected = (states.BUILDING, step, attempt)
        if (row.vm_state, row.task_state, row.attempt) != expected or (host is not None and row.host != host):
            raise errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=f"{row.vm_state}/{row.task_state}")

    def _expect_step(self, row: Instance, attempt: int) -> None:
        if (row.vm_state, row.attempt) != (states.BUILDING, attempt) or row.task_state not in states.BUILD_STEPS:
            raise errors.StaleBuild(instance_uuid=row.uuid, attempt=attempt, reason=f"{row.vm_state}/{row.task_state}")

    def _leave_host(self, row: Instance, **changes: Any) -> None:
        nothing = {"claimed_memory_mb": 0, "claimed_disk_gb": 0, "claimed_vcpus": 0}
        nothing.update(claimed_numa_topology=None, claimed_pci_devices=None)
        self.put(row, host=None, node=None, **nothing, **changes)

    def _report(self, report: HostReport) -> JSONObject:
        reason = self.refused_nodes.get(report.node, "")
        if not reason:
            self.reports[report.host, report.node] = report
        return {"host": report.host, "node": report.node, "accepted": not reason, "reason": reason}
