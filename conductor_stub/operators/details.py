# SPDX-License-Identifier: Apache-2.0
"""Changes names, descriptions, metadata and tags of instances.

No host and no scheduler needs to know it. Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

from oslo_log import log as logging

from conductor_stub.operators.views import instance_view
from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database, Transaction
from fleet.db.instances import instance_values, instances
from fleet.json_codec import JSONObject
from fleet.objects import InstanceChanges, fields, host_name
from fleet.objects.answers.instances import InstanceView
from fleet.rpc.endpoint import endpoint, require_size, served

LOG = logging.getLogger(__name__)


class DetailsManager:
    """The RPC surface of the namespace ``operator`` for the name, description, metadata and tags of instances."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, clock: Clock = utcnow) -> None:
        self._database = database
        self._clock = clock

    @endpoint
    def update_instance(self, context: RequestContext, name: fields.Name, changes: JSONObject) -> InstanceView:
        """Return the instance as ``list_instances`` does. :param changes: an InstanceChanges

        :raises errors.NotFound: also if it was deleted; errors.Conflict: several have that name; errors.InvalidInput:
        """
        require_size(changes, "changes")
        wanted = InstanceChanges.from_wire(changes)

        def change(tx: Transaction) -> InstanceView:
            row = instances.lock(tx, found.uuid)
            if row.deleted:
                raise errors.NotFound(kind="Instance", name=name)
            before = instance_values.spec_of(row)
            details = wanted.details({"metadata": before["metadata"], "tags": before.get("tags", [])})
            if wanted.name and not before.get("hostname"):
                # The guest got its host name when it was built: a new name does not change it.
                details.setdefault("hostname", host_name.of(row.name))
            values = {"name": wanted.name or row.name, "updated_at": self._clock()}
            if details:
                values["details"] = {**(row.details or {}), **details}
            tx.update(instances.INSTANCES, row.uuid, values)
            return instance_view(instances.moved(row, values))

        found = self._database.read(instances.find, name)
        view = self._database.write(change)
        if wanted.name and wanted.name != found.name:
            LOG.info("Instance %s (%s) is now named %s", found.name, found.uuid, wanted.name)
        return view
