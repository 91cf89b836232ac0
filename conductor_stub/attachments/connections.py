# SPDX-License-Identifier: Apache-2.0
"""Asks the agent of a backend for the place of a volume's data. Only this agent knows it.

Called by :mod:`conductor_stub.attachments.intake` and :mod:`conductor_stub.attachments.reservations`.
"""

from __future__ import annotations

import oslo_messaging

from fleet import errors
from fleet.context import RequestContext
from fleet.db.hosts import services
from fleet.db.tables.volumes import VolumeRow
from fleet.db.volumes import volumes
from fleet.objects import VolumeConnection
from fleet.rpc.clients import VolumeAPI


def connection_of(backends: VolumeAPI, context: RequestContext, volume: VolumeRow) -> VolumeConnection:
    """:raises errors.ServiceDown: errors.NotFound: errors.NotSupported: errors.VersionPinned:"""
    backend, pool = volumes.place_of(volume)
    try:
        found = backends.get_connection(context, backend, volume.uuid, pool)
    except (oslo_messaging.MessagingException, oslo_messaging.MessageUndeliverable) as silence:
        reason = f"it does not answer ({type(silence).__name__})"
        host = volume.host if context.is_admin else "of the volume"
        raise errors.ServiceDown(binary=services.VOLUME, host=host, reason=reason) from None
    return VolumeConnection.from_wire(found)
