# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that attaches volumes to guests and detaches them.

:mod:`compute_agent.drivers.libvirt.driver` inherits it.
"""

from __future__ import annotations

from compute_agent.drivers.libvirt.access import GuestAccess, require_openable
from compute_agent.drivers.libvirt.domains import volumes
from fleet.context import RequestContext
from fleet.objects import Attachment


class Attaching(GuestAccess):
    takes_volumes = True

    def attach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        """First the record, then the domain: a volume that may be attached is recorded."""
        require_openable([attachment])
        domain = self._require(instance_uuid)
        if domain is not None:
            self._connection.call(lambda _connection: volumes.require_awake(domain))
        self._disks.keep(self._record(instance_uuid).with_volume(attachment))
        if domain is not None:
            self._connection.call(lambda _connection: volumes.attach(domain, attachment))

    def detach_volume(self, context: RequestContext, instance_uuid: str, attachment: Attachment) -> None:
        domain, limit_s = self._require(instance_uuid), self._options.device_detach_timeout
        if domain is not None:
            self._connection.call(lambda _connection: volumes.require_awake(domain))
            self._connection.call(lambda _connection: volumes.detach(domain, attachment, limit_s))
        self._disks.keep(self._record(instance_uuid).without_volume(attachment.volume_uuid))

    def attached_volumes(self) -> dict[str, list[str]]:
        return {uuid: sorted(record.volumes) for uuid, record in self._disks.records().items() if record.volumes}
