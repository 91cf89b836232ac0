# SPDX-License-Identifier: Apache-2.0
"""Sends orders to the agent of one storage backend.

The conductor's machines call it after each commit that concerns a volume.
"""

from __future__ import annotations

from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.objects.answers.volumes import Manageable
from fleet.rpc.clients.api import MANDATORY, Message
from fleet.rpc.clients.compute import HostAPI


class VolumeAPI(HostAPI):
    """``host`` is the backend, ``machine@backend``."""

    topic = "volume"

    def advance_volume(self, context: RequestContext, host: str, volume_uuid: str) -> None:
        """Tell the agent to read the volume, which has work for it."""
        self._order(context, host, Message("advance_volume", {"volume_uuid": volume_uuid}))

    def get_manageable(self, context: RequestContext, host: str) -> list[Manageable]:
        """Return the data on the backend that may become a volume.

        :raises oslo_messaging.MessageUndeliverable: no agent serves the backend
        :raises errors.VersionPinned: it is too old
        """
        message = Message("get_manageable", {}, version="1.1")
        return self._ask(context, message, server=host, transport_options=MANDATORY)

    def get_connection(self, context: RequestContext, host: str, volume_uuid: str, pool: str) -> JSONObject:
        """Return where the data of a volume are (``fleet.objects.VolumeConnection``).

        :raises oslo_messaging.MessageUndeliverable: no agent serves the backend
        :raises errors.NotFound: errors.ServiceDown: errors.NotSupported:
        :raises errors.VersionPinned: it is too old
        """
        asked = {"volume_uuid": volume_uuid, "pool": pool}
        message = Message("get_connection", asked, version="1.2")
        return self._ask(context, message, server=host, transport_options=MANDATORY)
