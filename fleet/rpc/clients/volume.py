# SPDX-License-Identifier: Apache-2.0
"""Sends orders to the agent of one storage backend."""

from __future__ import annotations

from fleet.context import RequestContext
from fleet.rpc.clients.api import Message
from fleet.rpc.clients.compute import HostAPI


class VolumeAPI(HostAPI):
    """``host`` is the backend, ``machine@backend``."""

    topic = "volume"

    def advance_volume(self, context: RequestContext, host: str, volume_uuid: str) -> None:
        """Tell the agent to read the volume, which has work for it."""
        self._order(context, host, Message("advance_volume", {"volume_uuid": volume_uuid}))
