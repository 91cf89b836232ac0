# SPDX-License-Identifier: Apache-2.0
"""Attaches volumes to guests and detaches them. The attachments' rows say which; the order only says to read them.

Nothing is stored between the order and the report, and each step has no effect the second time.
"""

from __future__ import annotations

from collections.abc import Callable

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.node.host import Host
from compute_agent.work import orders, reach
from compute_agent.work.turns import Turns
from fleet import control_characters, errors, failpoints, volume_states
from fleet.agent import time_limit
from fleet.agent.patience import Unanswered
from fleet.context import RequestContext
from fleet.objects import Attachment

LOG = logging.getLogger(__name__)


class Attacher:
    """Attaches and detaches the volumes of one host's guests. The caller ensures that no other work on the instance runs."""

    def __init__(
        self,
        host: Host,
        calls: BuildCalls,
        within: time_limit.Within = time_limit.run_within,
        turns: Turns | None = None,
    ) -> None:
        self._host = host
        self._calls = calls
        self._within = within
        self._turns = turns or Turns()

    def run(self, context: RequestContext, instance_uuid: str) -> None:
        """Attach and detach until nothing is left to do. If the conductor does not answer, it sends the order again."""
        context = context.about(instance_uuid=instance_uuid, host=self._host.name)
        try:
            for attachment in self._calls.find_attachments(context, self._host.name, instance_uuid):
                wanted: Attachment | None = attachment
                # What could not be attached is to be detached then. What cannot be detached is left to the sweeper.
                for _step in volume_states.WITH_A_HOST:
                    if wanted is not None and wanted.status in volume_states.WITH_A_HOST:
                        wanted = self._act(context.under(wanted.request_id), wanted)
        except (Unanswered, errors.FleetError) as silence:
            orders.unconfirmed(orders.ATTACH, instance_uuid, self._host.name, silence)

    def _act(self, context: RequestContext, attachment: Attachment) -> Attachment | None:
        """Return the attachment as it is after this step; None if it is no more."""
        failure = ""
        try:
            self._within(context, self._host.policy.driver_timeout_s, self._work(context, attachment))
        except Exception as failed:
            expected = isinstance(failed, time_limit.Overrun | errors.FleetError)
            reason = failed.message if isinstance(failed, errors.FleetError) else f"{type(failed).__name__}: {failed}"
            failure = control_characters.lines(reason)
            LOG.warning(
                "The task %s of volume %s has failed: %s",
                attachment.status,
                attachment.volume_uuid,
                failure,
                exc_info=not expected,
            )
        else:
            LOG.info("The task %s of volume %s is done", attachment.status, attachment.volume_uuid)
        return self._calls.attachment_done(context, attachment, self._host.name, failure)

    def _work(self, context: RequestContext, attachment: Attachment) -> Callable[[], None]:
        work = self._attach if attachment.status == volume_states.ATTACHING else self._detach
        return self._turns.alone(attachment.instance_uuid, lambda: work(context, attachment))

    def _attach(self, context: RequestContext, attachment: Attachment) -> None:
        failpoints.hit("agent.attach.before")
        reach.require(self._host, attachment)
        self._host.driver.attach_volume(context, attachment.instance_uuid, attachment)
        failpoints.hit("agent.attach.after")

    def _detach(self, context: RequestContext, attachment: Attachment) -> None:
        failpoints.hit("agent.detach.before")
        driver, uuid = self._host.driver, attachment.instance_uuid
        if attachment.volume_uuid in driver.attached_volumes().get(uuid, ()):
            driver.detach_volume(context, uuid, attachment)
        failpoints.hit("agent.detach.after")
