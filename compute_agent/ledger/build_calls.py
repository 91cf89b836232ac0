# SPDX-License-Identifier: Apache-2.0
"""Calls to the conductor for builds. Each is repeated until it is answered, because a timeout is an unknown outcome.

All of them are safe to repeat: the row stores the attempt, the host and the incarnation of its last change.
"""

from __future__ import annotations

from collections.abc import Callable

from compute_agent.ledger.instance_info import InstanceInfo
from fleet import errors
from fleet.agent.batching import Batcher
from fleet.agent.patience import Answer, P, Patience
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects import Attachment, BootData, Claim, FailedAttempt, Finish, ImageRecord, Instance
from fleet.objects.guest_restarts import Fate, RestartLimits
from fleet.rpc.clients import ComputeTaskAPI, ConductorAPI

#: Instances in one answer, if all are too large for one. Users choose how much metadata each has.
_PART = 50


class BuildCalls:
    """``claim_timeout_s`` bounds every call but ``finish_build``. Recorded builds are reported to the schedulers.

    One object for all hosts of a process, so that claims and finishes go in batches.
    """

    def __init__(
        self,
        conductor: ConductorAPI,
        compute_task: ComputeTaskAPI,
        patience: Patience,
        claim_timeout_s: float,
        told: InstanceInfo | None = None,
        batcher: Batcher | None = None,
    ) -> None:
        self._conductor = conductor
        self._batcher = batcher or Batcher(conductor)
        self._compute_task = compute_task
        self._patience = patience
        self._limit_s = claim_timeout_s
        self._told = told or InstanceInfo()

    def claim_instance(self, context: RequestContext, claim: Claim) -> Instance:
        """Record that the host holds ``claim`` for the instance; returns the instance.

        :raises StaleBuild: StaleIncarnation: GroupAffinityViolation: ComputeResourcesUnavailable: NotFound: (all of
            ``errors``) Unanswered:
        """
        step = self._batcher.step(context, claim.method, **claim.to_wire())
        return Instance.from_wire(self._patience.until_answered(claim.method, step.ask, self._limit_s))

    def finish_build(self, context: RequestContext, finish: Finish) -> Instance:
        """Record that the guest runs; returns the instance, active. Repeated without end: only the row can say whether
        the guest may run.

        :raises errors.StaleBuild: errors.StaleIncarnation: errors.NotFound: Unanswered: (only when the agent stops)
        """
        step = self._batcher.step(context, finish.method, **finish.to_wire())
        instance = Instance.from_wire(self._patience.until_answered(finish.method, step.ask, limit_s=None))
        self._told.arrived(context, instance)
        return instance

    def reschedule(self, context: RequestContext, failed: FailedAttempt, alternates: list[JSONObject]) -> bool:
        """Return True if the attempt counts among those that ``scheduler_max_attempts`` allows."""
        return self._ask(self._compute_task.reschedule, context, failed, alternates)

    def abort_build(self, context: RequestContext, failed: FailedAttempt) -> None:
        self._ask(self._compute_task.abort_build, context, failed)

    def instance_destroyed(self, context: RequestContext, instance_uuid: str, host: str) -> None:
        self._ask(self._conductor.instance_destroyed, context, instance_uuid, host)
        self._told.gone(context, host, instance_uuid)

    def compare_instances(
        self, context: RequestContext, held: dict[str, list[str]], power: dict[str, dict[str, int]] | None = None
    ) -> dict[str, list[str]]:
        """Return, by host, the instances that must be compared in detail. :raises Unanswered:"""
        return self._ask(self._conductor.compare_instances, context, held, power or {})

    def report_guest(
        self, context: RequestContext, instance: Instance, host: str, power_state: int, failed: bool = False
    ) -> bool:
        """Report the driver's state; return True if the row has it now. :raises Unanswered:

        :param instance: as the ledger had it when the difference was found
        :param failed: set the instance to ERROR
        """
        return self._ask(
            self._conductor.report_guest, context, instance.uuid, host, power_state, instance.power_state, failed
        )

    def restart_guest(
        self, context: RequestContext, instance: Instance, host: str, limits: RestartLimits, moves: bool
    ) -> tuple[Fate, int, str] | None:
        """Return the conductor's decision about a guest that is down; None if the conductor is too old. :raises Unanswered:

        :return: with the number of its restarts, and why it was given up
        """
        answer = self._ask(
            self._conductor.restart_guest,
            *(context, instance.uuid, host, instance.power_state, limits.to_wire(), moves),
        )
        return None if answer is None else (Fate(answer["fate"]), answer["count"], answer["why"])

    def power_done(
        self, context: RequestContext, instance: Instance, host: str, power_state: int, failure: str = ""
    ) -> bool:
        """Report that the instance's power task has ended; return True if the row still had it. :raises Unanswered:"""
        done = (instance.uuid, host, instance.task_state or "", power_state, failure)
        return self._ask(self._conductor.power_done, context, *done, instance.attempt, instance.task_deadline)

    def find_attachments(self, context: RequestContext, host: str, instance_uuid: str) -> list[Attachment]:
        """Return the attachments of an instance, if the ledger has it on ``host``. :raises Unanswered:"""
        answer = self._ask(self._conductor.get_attachments, context, instance_uuid, host)
        return [Attachment.from_wire(each) for each in answer]

    def attachment_done(
        self, context: RequestContext, attachment: Attachment, host: str, failure: str = ""
    ) -> Attachment | None:
        """Report the end of a step; return the attachment as it is now, None if it is no more. :raises Unanswered:"""
        said = (attachment.uuid, host, attachment.status, attachment.attempt, failure)
        answer = self._ask(self._conductor.attachment_done, context, *said)
        return Attachment.from_wire(answer) if answer else None

    def find_instance(self, context: RequestContext, host: str, uuid: str) -> Instance | None:
        """Return the instance, if the ledger has it on ``host``. :raises Unanswered:"""
        answer = self._ask(self._conductor.get_host_instances, context, host, [uuid])
        return Instance.from_wire(answer[0]) if answer else None

    def find_image(self, context: RequestContext, image_id: str) -> ImageRecord:
        """:raises errors.NotFound: Unanswered:"""
        return ImageRecord.from_wire(self._ask(self._conductor.get_image, context, image_id))

    def find_boot_data(self, context: RequestContext, instance_uuid: str, host: str) -> BootData:
        """:raises errors.NotFound: the instance is not on ``host``, nor on its way there; Unanswered:"""
        return BootData.from_wire(self._ask(self._conductor.get_boot_data, context, instance_uuid, host))

    def get_host_instances(self, context: RequestContext, host: str) -> list[Instance]:
        """Repeat without a limit: an agent must know its instances before it begins.

        They are read in parts if they are too large for one answer.
        """
        try:
            return self._read(context, host, None)
        except errors.InvalidInput as refused:
            if refused.field != refused.ANSWER:
                raise
        uuids = self._patience.call(None, self._conductor.compare_instances, context, {host: []}).get(host, [])
        parts = (uuids[start : start + _PART] for start in range(0, len(uuids), _PART))
        return [instance for part in parts for instance in self._read(context, host, part)]

    def _read(self, context: RequestContext, host: str, uuids: list[str] | None) -> list[Instance]:
        answer = self._patience.call(None, self._conductor.get_host_instances, context, host, uuids)
        return [Instance.from_wire(instance) for instance in answer]

    def _ask(self, call: Callable[P, Answer], *args: P.args, **kwargs: P.kwargs) -> Answer:
        return self._patience.call(self._limit_s, call, *args, **kwargs)
