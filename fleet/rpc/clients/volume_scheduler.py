# SPDX-License-Identifier: Apache-2.0
"""Calls to schedulers for the placement of volumes. Conductors call it."""

from __future__ import annotations

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc.clients.decision import DecisionAPI


class VolumeSchedulerAPI(DecisionAPI):
    topic = "volume_scheduler"

    def takes_several(self) -> bool:
        """Return True if the request spec of :meth:`select_backend` may have ``volume_ids``."""
        return self._can_send("1.1")

    def select_backend(
        self, context: RequestContext, request_spec: JSONObject, filter_properties: JSONObject
    ) -> list[JSONObject]:
        """Return one element as ``select_destinations`` does: ``host`` is ``machine@backend``, ``nodename`` the pool.

        With ``volume_ids`` in the spec, return one for each of them, or none.

        :raises errors.NoValidHost:
        :raises oslo_messaging.MessagingTimeout: the outcome is unknown
        """
        version = "1.1" if "volume_ids" in request_spec else ""
        return self._decide(context, "select_backend", request_spec, filter_properties, version)

    def retype(
        self, context: RequestContext, request_spec: JSONObject, filter_properties: JSONObject
    ) -> list[JSONObject]:
        """Return a pool as ``select_backend`` does: the volume's own pool if it suits the new type.

        :raises errors.NoValidHost:
        :raises oslo_messaging.MessagingTimeout: the outcome is unknown
        """
        return self._decide(context, "retype", request_spec, filter_properties)

    def manage_existing(
        self, context: RequestContext, request_spec: JSONObject, filter_properties: JSONObject
    ) -> list[JSONObject]:
        """Return the pool that ``volume_properties.host`` names, if the volume may be there. Its space is not judged.

        :raises errors.NoValidHost:
        :raises oslo_messaging.MessagingTimeout: the outcome is unknown
        """
        return self._decide(context, "manage_existing", request_spec, filter_properties)
