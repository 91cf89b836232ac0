# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of ``unshelve_instance``: an instance that has kept its host starts there, any other one is placed.

:mod:`conductor_stub.operators.wiring` makes it.
"""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.builds.unshelving import Unshelving
from conductor_stub.power.intake import PowerIntake, power_view
from fleet import errors, states
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.instances import instances
from fleet.objects import Zone, fields
from fleet.objects.answers.instances import PowerView
from fleet.rpc.endpoint import endpoint, served

LOG = logging.getLogger(__name__)


class UnshelveManager:
    target = served("conductor", "operator")

    def __init__(self, database: Database, power: PowerIntake, unshelving: Unshelving) -> None:
        self._database = database
        self._power = power
        self._unshelving = unshelving

    @endpoint
    def unshelve_instance(
        self,
        context: RequestContext,
        name: fields.Name,
        availability_zone: fields.Text | None = None,
        host: fields.Name | None = None,
    ) -> PowerView:
        """Let a shelved instance run again.

        :param availability_zone: of an instance without a host: to choose one from; "" is any
        :param host: the only one to consider; it must pass the filters
        :raises errors.NotFound: errors.Conflict: errors.InvalidInput: errors.NotTrusted: errors.VersionPinned:
        """
        if availability_zone is not None and Zone.parse(availability_zone, "availability_zone").forced:
            raise errors.InvalidInput(field="availability_zone", reason="must be a zone without a host")
        if host is not None and not context.is_admin:
            raise errors.NotTrusted(reason="only the administrator names the host of a server")
        found = self._database.read(instances.find, name)
        if found.vm_state != states.SHELVED_OFFLOADED and found.shelved is None:
            if availability_zone is not None or host is not None:
                reason = "has kept its host: a zone or a host is for one that is SHELVED_OFFLOADED"
                raise errors.Conflict(kind="Instance", name=found.name, reason=reason)
            return self._power.unshelve(context, found.uuid)
        row = self._unshelving.begin(context, found.uuid, availability_zone, host)
        LOG.info("Unshelving instance %s", row.name)
        return power_view(row)
