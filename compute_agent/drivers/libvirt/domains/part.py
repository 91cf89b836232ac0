# SPDX-License-Identifier: Apache-2.0
"""The part of a guest's memory that a host has while the guest moves to another one, or from there.

Called by ``live`` beside it, and by :mod:`compute_agent.drivers.libvirt.live_moves`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from compute_agent.drivers.libvirt.domains import power
from compute_agent.drivers.libvirt.domains.connection import library
from fleet import states

if TYPE_CHECKING:
    import libvirt


class Part(enum.Enum):
    #: libvirt does not answer.
    UNKNOWN = enum.auto()
    #: libvirt has no domain of the guest.
    NONE = enum.auto()
    #: libvirt receives it, hands it over, or has just done so.
    MOVING = enum.auto()
    #: A post-copy has switched hosts, and sends the rest.
    HALF = enum.auto()
    #: It was interrupted: both hosts have a half.
    CUT_OFF = enum.auto()
    #: All of it; or the guest has shut itself down since.
    WHOLE = enum.auto()
    #: Nothing: the domain was ended, perhaps with its machine.
    OFF = enum.auto()
    #: Nothing: its QEMU has died.
    CRASHED = enum.auto()

    @property
    def is_half(self) -> bool:
        return self in (Part.HALF, Part.CUT_OFF)

    @property
    def is_moving(self) -> bool:
        """True unless the migration has ended for this host."""
        return self in (Part.UNKNOWN, Part.MOVING) or self.is_half

    @property
    def has_arrived(self) -> bool:
        """True for a destination if the guest has run there, and is whole or has ended: its disks there are the newest."""
        return self in (Part.WHOLE, Part.OFF, Part.CRASHED)


def of(domain: libvirt.virDomain | None) -> Part:
    """Return the part that a domain has, on either host.

    After the switch of a post-copy the domain is paused on the source, and runs on the destination, also when it was
    interrupted. libvirt keeps the definition of a domain when it has arrived: one that is only received has none.
    """
    if domain is None:
        return Part.NONE
    state, reason = domain.state()
    known = _by_reason().get((state, reason))
    now = power.power_state(state, reason)
    if known is not None or now == states.RUNNING:
        return known or Part.WHOLE
    is_kept = domain.isPersistent()
    if now in power.WITH_A_PROCESS:
        return Part.WHOLE if is_kept else Part.MOVING
    if not is_kept:
        return Part.NONE
    return Part.CRASHED if now == states.CRASHED else Part.OFF


def on(connection: libvirt.virConnect, uuid: str) -> Part:
    """Return the part that the host of this connection has."""
    module = library()
    try:
        return of(connection.lookupByUUIDString(uuid))
    except module.libvirtError as failure:
        if failure.get_error_code() != module.VIR_ERR_NO_DOMAIN:
            raise
        return Part.NONE


def _by_reason() -> dict[tuple[int, int], Part]:
    module = library()
    return {
        (module.VIR_DOMAIN_PAUSED, module.VIR_DOMAIN_PAUSED_MIGRATION): Part.MOVING,
        (module.VIR_DOMAIN_PAUSED, module.VIR_DOMAIN_PAUSED_POSTCOPY): Part.HALF,
        (module.VIR_DOMAIN_RUNNING, module.VIR_DOMAIN_RUNNING_POSTCOPY): Part.HALF,
        (module.VIR_DOMAIN_PAUSED, module.VIR_DOMAIN_PAUSED_POSTCOPY_FAILED): Part.CUT_OFF,
        (module.VIR_DOMAIN_RUNNING, module.VIR_DOMAIN_RUNNING_POSTCOPY_FAILED): Part.CUT_OFF,
        (module.VIR_DOMAIN_SHUTOFF, module.VIR_DOMAIN_SHUTOFF_MIGRATED): Part.MOVING,
        (module.VIR_DOMAIN_SHUTOFF, module.VIR_DOMAIN_SHUTOFF_SHUTDOWN): Part.WHOLE,
    }
