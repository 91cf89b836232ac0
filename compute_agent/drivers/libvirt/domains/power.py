# SPDX-License-Identifier: Apache-2.0
"""The state of a domain as one of nova's power states, and how a domain is switched off or saved.

All parts of the driver read and switch domains through it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from compute_agent.drivers.libvirt.domains.connection import library
from fleet import states
from fleet.agent import time_limit

if TYPE_CHECKING:
    import libvirt

#: States of a domain that QEMU has in memory.
WITH_A_PROCESS = (states.RUNNING, states.PAUSED, states.SUSPENDED)
#: Seconds between two looks at a guest that is to shut down, and after which it is asked again: it may still be booting.
_LOOK_S, _ASK_S = 0.2, 5.0


def state_of(domain: libvirt.virDomain) -> int:
    """:raises libvirt.libvirtError: the domain is gone"""
    state, reason = domain.state()
    return power_state(state, reason)


def power_state(state: int, reason: int) -> int:
    """A domain whose QEMU was killed is crashed; one that was shut down, from inside or outside, is off."""
    module = library()
    if state == module.VIR_DOMAIN_SHUTOFF and reason in (
        module.VIR_DOMAIN_SHUTOFF_CRASHED,
        module.VIR_DOMAIN_SHUTOFF_FAILED,
    ):
        return states.CRASHED
    return {
        module.VIR_DOMAIN_NOSTATE: states.NOSTATE,
        module.VIR_DOMAIN_RUNNING: states.RUNNING,
        module.VIR_DOMAIN_BLOCKED: states.RUNNING,
        module.VIR_DOMAIN_PAUSED: states.PAUSED,
        # It is shutting down, and still runs.
        module.VIR_DOMAIN_SHUTDOWN: states.RUNNING,
        module.VIR_DOMAIN_SHUTOFF: states.SHUTDOWN,
        module.VIR_DOMAIN_CRASHED: states.CRASHED,
        module.VIR_DOMAIN_PMSUSPENDED: states.SUSPENDED,
    }.get(state, states.NOSTATE)


def shut_down(domain: libvirt.virDomain, limit_s: float) -> None:
    """Press the power button of a guest, and force it off after ``limit_s``. A guest that is off is a success.

    :raises time_limit.Overrun: the caller was given up meanwhile
    """
    end, ask = time.monotonic() + limit_s, 0.0
    while state_of(domain) == states.RUNNING and time.monotonic() < end:
        time_limit.require_wanted()
        if time.monotonic() >= ask:
            _tolerate(domain.shutdown)
            ask = time.monotonic() + _ASK_S
        time.sleep(_LOOK_S)
    if state_of(domain) in WITH_A_PROCESS:
        time_limit.require_wanted()
        force_off(domain)


def force_off(domain: libvirt.virDomain) -> None:
    """End QEMU at once."""
    _tolerate(domain.destroy)


def save(domain: libvirt.virDomain, limit_s: float) -> None:
    """Save the memory of a domain with a process in libvirt's file, and end the process.

    A save that is not done within ``limit_s`` is aborted: the guest then runs on.

    :raises libvirt.libvirtError: it cannot be saved, or not in time
    """
    late = threading.Timer(limit_s, lambda: _tolerate(domain.abortJob))
    late.start()
    try:
        # A restored domain runs, even if it was paused before.
        domain.managedSave(library().VIR_DOMAIN_SAVE_RUNNING)
    finally:
        late.cancel()


def forget_memory(domain: libvirt.virDomain) -> None:
    """Remove saved memory: the domain then boots."""
    if domain.hasManagedSaveImage():
        _tolerate(domain.managedSaveRemove)


def remove(domain: libvirt.virDomain) -> None:
    """Switch a domain off at once, and let libvirt forget it, with its saved memory, snapshots and checkpoints.

    :raises libvirt.libvirtError: libvirt keeps it
    """
    force_off(domain)
    _tolerate(lambda: domain.undefineFlags(_everything(domain)), off=False)


def _everything(domain: libvirt.virDomain) -> int:
    """Return the flags without which libvirt keeps a domain that has more than its definition."""
    module = library()
    flags: int = module.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE | module.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
    # Programs for backups make them. Not every hypervisor knows the flag.
    return flags | (module.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA if domain.listAllCheckpoints() else 0)


def _tolerate(step: Callable[[], object], off: bool = True) -> None:
    """Do a step that has nothing to do where the domain is gone, or, with ``off``, where it is switched off."""
    module = library()
    try:
        step()
    except module.libvirtError as failure:
        code = failure.get_error_code()
        if code != module.VIR_ERR_NO_DOMAIN and not (off and code == module.VIR_ERR_OPERATION_INVALID):
            raise
