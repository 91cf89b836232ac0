# SPDX-License-Identifier: Apache-2.0
"""The state of a domain as one of nova's power states."""

from __future__ import annotations

from typing import Any

from compute_agent.drivers.libvirt.connection import library
from fleet import states


def state_of(domain: Any) -> int:
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
