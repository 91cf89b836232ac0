# SPDX-License-Identifier: Apache-2.0
"""The volumes of a domain: disks that come and go while it runs.

Called by :mod:`compute_agent.drivers.libvirt.access` and :mod:`compute_agent.drivers.libvirt.attaching`. A volume is
known by its serial number, its whole uuid in the domain's XML; the guest sees the first 20 characters.
"""

from __future__ import annotations

import pathlib
import time
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from compute_agent.drivers.libvirt.domains import domain_xml, power
from compute_agent.drivers.libvirt.domains.connection import library
from compute_agent.drivers.libvirt.domains.domain_xml import Disk
from fleet import errors
from fleet.objects import Attachment

if TYPE_CHECKING:
    import libvirt

#: Seconds between two looks whether the guest has released a disk, and after which it is asked again: it may be booting.
_LOOK_S, _ASK_S = 0.2, 5.0


class VolumeBusy(errors.FleetError):
    """The guest has not answered the request to release a disk. Unmount it there, and detach the volume again."""

    template = "The guest has not released device {device} within {limit_s:g} s: unmount it there, and detach it again"


class GuestSuspended(errors.FleetError):
    """The saved memory of a guest has the disks that it had then. Resume the instance, or stop it, first."""

    template = "The guest is suspended: its volumes change when it is resumed or stopped"


def require_awake(domain: libvirt.virDomain) -> None:
    """:raises GuestSuspended: the guest's saved memory has the present volumes, so a change now would be lost"""
    if domain.hasManagedSaveImage():
        raise GuestSuspended


def disk_of(attachment: Attachment) -> Disk:
    connection = attachment.connection
    return Disk(
        pathlib.Path(connection.path),
        connection.format,
        attachment.device,
        serial=attachment.volume_uuid,
        kind=connection.kind,
    )


def attached(domain: libvirt.virDomain) -> list[str]:
    """Return the uuids of the volumes that a domain has."""
    disks = ElementTree.fromstring(domain.XMLDesc()).iterfind("devices/disk")
    return sorted(serial for disk in disks if (serial := disk.findtext("serial")))


def attach(domain: libvirt.virDomain, attachment: Attachment) -> None:
    """Add the disk where it is missing: to the domain that runs, and to its definition."""
    text = domain_xml.disk_text(disk_of(attachment))
    missing = [flag for flag, found in _where(domain, attachment).items() if found is None]
    for flag in missing:
        domain.attachDeviceFlags(text, flag)


def detach(domain: libvirt.virDomain, attachment: Attachment, limit_s: float) -> None:
    """Remove the disk from where it is; a guest that runs must release it. :raises VolumeBusy:"""
    live, ask, end = library().VIR_DOMAIN_AFFECT_LIVE, 0.0, time.monotonic() + limit_s
    while (text := _where(domain, attachment).get(live)) is not None:
        if time.monotonic() >= end:
            raise VolumeBusy(device=attachment.device, limit_s=limit_s)
        if time.monotonic() >= ask:
            _ask(domain, text)
            ask = time.monotonic() + _ASK_S
        time.sleep(_LOOK_S)
    for flag, text in _where(domain, attachment).items():
        if text is not None:
            domain.detachDeviceFlags(text, flag)


def _ask(domain: libvirt.virDomain, text: str) -> None:
    """Ask the guest to release a disk. While it has been asked already, QEMU refuses: it is asked again later."""
    module = library()
    try:
        domain.detachDeviceFlags(text, module.VIR_DOMAIN_AFFECT_LIVE)
    except module.libvirtError as failure:
        tolerated = module.VIR_ERR_OPERATION_FAILED, module.VIR_ERR_INTERNAL_ERROR, module.VIR_ERR_DEVICE_MISSING
        if failure.get_error_code() not in tolerated:
            raise


def _where(domain: libvirt.virDomain, attachment: Attachment) -> dict[int, str | None]:
    """Return the XML of the disk in the running domain, if it runs, and in its definition; None if it is not there."""
    module = library()
    texts = {module.VIR_DOMAIN_AFFECT_CONFIG: domain.XMLDesc(module.VIR_DOMAIN_XML_INACTIVE)}
    if power.state_of(domain) in power.WITH_A_PROCESS:
        texts[module.VIR_DOMAIN_AFFECT_LIVE] = domain.XMLDesc()
    return {flag: _found(text, attachment.volume_uuid) for flag, text in texts.items()}


def _found(text: str, serial: str) -> str | None:
    for disk in ElementTree.fromstring(text).iterfind("devices/disk"):
        if disk.findtext("serial") == serial:
            return ElementTree.tostring(disk, encoding="unicode")
    return None
