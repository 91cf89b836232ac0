# SPDX-License-Identifier: Apache-2.0
"""The part of the driver that attaches volumes to guests and detaches them.

:mod:`compute_agent.drivers.libvirt.driver` inherits it.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from compute_agent.drivers.libvirt.access import GuestAccess, require_openable
from compute_agent.drivers.libvirt.domains import volumes
from fleet.context import RequestContext
from fleet.objects import Attachment

if TYPE_CHECKING:
    import libvirt


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
        """A guest whose record is lost may run on, with its volumes: its domain is enough."""
        domain, limit_s = self._find(instance_uuid), self._options.device_detach_timeout
        if domain is None:
            self._record(instance_uuid)
        else:
            self._connection.call(lambda _connection: volumes.require_awake(domain))
            self._connection.call(lambda _connection: volumes.detach(domain, attachment, limit_s))
        record = self._disks.record(instance_uuid)
        if record is not None:
            self._disks.keep(record.without_volume(attachment.volume_uuid))

    def attached_volumes(self) -> dict[str, list[str]]:
        """Return the volumes of the records, and of domains whose records are lost.

        :raises Unreachable: there are such domains, and libvirt does not answer
        """
        records = self._disks.records()
        found = {uuid: sorted(record.volumes) for uuid, record in records.items()}
        for uuid, usage in self.get_per_instance_usage().items():
            if uuid not in records and "attempt" in usage and (domain := self._find(uuid)) is not None:
                found[uuid] = self._connection.call(functools.partial(_of_domain, domain))
        return {uuid: uuids for uuid, uuids in found.items() if uuids}


def _of_domain(domain: libvirt.virDomain, _connection: object) -> list[str]:
    return volumes.attached(domain)
