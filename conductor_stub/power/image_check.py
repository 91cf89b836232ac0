# SPDX-License-Identifier: Apache-2.0
"""Checks by the filters that an instance may stay on its host with another image, as at a boot or a move.

Called by :mod:`conductor_stub.power.intake` and :mod:`conductor_stub.power.wiring`. Some images are kept to some
hosts, for a license or for isolation. A rebuild does not move the instance, so without this check it would get around
them.
"""

from __future__ import annotations

import dataclasses

import oslo_messaging
from oslo_log import log as logging

from conductor_stub.steps import request_spec
from fleet import errors
from fleet.context import RequestContext
from fleet.db.engine import claimed
from fleet.db.instances import instance_values, instances
from fleet.db.tables.instances import RequestedInstance
from fleet.json_codec import JSONObject
from fleet.objects import Holding, Image
from fleet.rpc.clients import SchedulerAPI

LOG = logging.getLogger(__name__)

_SCHEDULER = "fleet-scheduler"


class ImageCheck:
    def __init__(self, scheduler: SchedulerAPI) -> None:
        self._scheduler = scheduler

    def require(self, context: RequestContext, row: RequestedInstance, image: Image) -> None:
        """:raises errors.InvalidInput: a filter refuses the image on the host of the instance
        :raises errors.ServiceDown: no scheduler answers
        """
        host, node = instances.place_of(row)
        stays = dataclasses.replace(instance_values.to_instance(row), image=image, availability_zone=None)
        # What the instance holds does not count against it.
        holding = Holding(row.uuid, host, node, claimed.of(row)).to_wire()
        spec = {**request_spec.build_request_spec([stays]), "holding": holding}
        properties = {
            "scheduler_hints": {},
            "instance_type": stays.flavor.to_wire(),
            "requested_destination": {"host": host},
        }
        try:
            found = self._scheduler.explain(context, spec, properties, best=1)
        except errors.NotSupported:
            # A driver without filters, or of an operator's own.
            LOG.info("The scheduler's driver cannot judge image %s for instance %s", image.name, row.name)
            return
        except (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable) as silence:
            reason = f"it does not answer ({type(silence).__name__}), and nothing was changed"
            raise errors.ServiceDown(binary=_SCHEDULER, host="(any)", reason=reason) from None
        if not found["picks"]:
            refusing = _refusing(found) or "the scheduler"
            raise errors.InvalidInput(
                field="request.image", reason=f"cannot be used where the instance is: {refusing} refuses it there"
            )


def _refusing(found: JSONObject) -> str:
    """The filter that drops the host; without names of hosts, which projects do not see."""
    return next((str(each["name"]) for each in found.get("filters") or () if each["start"] and not each["end"]), "")
