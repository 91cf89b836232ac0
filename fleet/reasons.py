# SPDX-License-Identifier: Apache-2.0
"""Why a request was refused, in one word out of a closed set: what an operator acts on, and programs count."""

from __future__ import annotations

import enum


class Reason(enum.StrEnum):
    """The ``reason_code`` of refusals, faults and log lines. One is dominant; the numbers go with it.

    A filter says which kind its no is with its attribute ``reason``. :func:`scheduler.why.refusal.dominant` chooses among
    several.
    """

    #: Hosts could take it if they were emptier. Wait, free room, or add hosts.
    CAPACITY = "CAPACITY"
    #: No host could take it even when empty: trying again is of no use. Change the request, or get larger hosts.
    NEVER_FITS = "NEVER_FITS"
    #: A rule says no: zone, hint, group, extra spec, tenant. Relax the request, or change what the rule is about.
    POLICY = "POLICY"
    #: The hosts that might have taken it are disabled, forced down, silent, or there are none. See 'fleet service list'.
    HOSTS_DOWN = "HOSTS_DOWN"
    #: The scheduler's knowledge is too old to decide by: it cannot read the database. Mend that.
    STALE_STATE = "STALE_STATE"
    #: Hosts were chosen, and had been filled by others when the claim arrived. Try again.
    RACE_LOST = "RACE_LOST"
    #: An option, a plugin or the request itself cannot be worked with; the message names it.
    MISCONFIGURED = "MISCONFIGURED"
    #: A message was lost or not answered: see the broker, and the daemons at its ends.
    MESSAGING = "MESSAGING"
    #: A bug, or a host that failed for reasons of its own: the message and the daemons' logs say more.
    INTERNAL = "INTERNAL"

    @classmethod
    def _missing_(cls, value: object) -> Reason:
        """A code of a release that knows more."""
        return cls.INTERNAL
