# SPDX-License-Identifier: Apache-2.0
"""Decides the copies of nova's requests. :mod:`scheduler.nova.shadow.service` hands them over."""

from __future__ import annotations

from collections.abc import Mapping

from oslo_log import log as logging

from fleet import errors
from fleet.context import new_context
from fleet.json_codec import JSONMapping
from fleet.objects import fields
from fleet.rpc.endpoint import require_size
from scheduler.compute.drivers.driver import Scheduler
from scheduler.nova import decoder
from scheduler.nova.placing import Placing
from scheduler.nova.request import NovaRequest
from scheduler.why.shadow.ledger import ShadowLedger
from scheduler.why.shadow.verdict import Verdict

LOG = logging.getLogger(__name__)
METHOD = "select_destinations"


class Shadow:
    """Its choices are booked in its own memory, as those of a scheduler are, or requests that follow would choose alike.

    :param placing: prepares requests. It reads from placement, and claims nothing here
    """

    def __init__(self, driver: Scheduler, placing: Placing, ledger: ShadowLedger) -> None:
        self._driver = driver
        self._placing = placing
        self._ledger = ledger

    def take(self, message: JSONMapping) -> None:
        """Decide one message to nova-scheduler, if it is a request for hosts."""
        arguments = message.get("args")
        if message.get("method") != METHOD or not isinstance(arguments, Mapping):
            return
        try:
            require_size(arguments, "arguments")
            call = decoder.decode(arguments)
        except errors.FleetError as refusal:
            LOG.warning("A request of nova cannot be read: %s", refusal.message)
            self._refuse(arguments, refusal)
            return
        if call.rebuild_check or not call.named:
            return
        self._ledger.wait_for(list(call.request.instance_uuids), self._verdict(call.request))

    def _refuse(self, arguments: Mapping[str, object], refusal: errors.FleetError) -> None:
        """Count a request that cannot be read as refused here, if its instances are named."""
        try:
            uuids = fields.parse(list[fields.Uuid], arguments.get("instance_uuids") or [])
        except errors.InvalidInput:
            return
        sources = self._driver.host_manager.shown(uuids)
        self._ledger.wait_for(uuids, Verdict("-", refusal=refusal.reason_code.value, sources=sources))

    def look(self) -> None:
        """Compare the servers that have got a host."""
        self._driver.refresh()
        self._driver.host_manager.release(self._ledger.look(self._driver.host_manager.shown))

    def _verdict(self, request: NovaRequest) -> Verdict:
        flavor = request.flavor.name or "-"
        # nova names the cell of every move. What is being built is on no host.
        sources = (
            self._driver.host_manager.shown(request.instance_uuids) if request.destination.cell is not None else {}
        )
        try:
            made, objections = self._driver.survey(new_context(), self._placing.prepared(request))
        except errors.FleetError as refusal:
            return Verdict(flavor, refusal=refusal.reason_code.value, sources=sources)
        if not made.complete:
            code = made.refusal.code.value if made.refusal else ""
            return Verdict(flavor, objection=objections.of, refusal=code, sources=sources)
        # nova has most likely chosen the same. The feed corrects that when it shows the server.
        self._driver.host_manager.book(made)
        return Verdict(flavor, tuple(pick.key[0] for pick in made.picks), objections.of, sources=sources)
