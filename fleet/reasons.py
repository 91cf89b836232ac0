# SPDX-License-Identifier: Apache-2.0
"""The reason of a refusal, as one word of a closed set: operators act on it, and programs count it.

Filters name one, errors carry it, and conductors decide by it whether to retry.
"""

from __future__ import annotations

import enum


class Reason(enum.StrEnum):
    """The ``reason_code`` of refusals, faults and log lines.

    A filter declares the kind of its refusals with the attribute ``reason``. If several kinds occur,
    :func:`scheduler.why.refusal.dominant` chooses one.
    """

    #: Hosts could take it if they were emptier. Wait, free room, or add hosts.
    CAPACITY = "CAPACITY"
    #: No host could take it, even empty: a retry is useless. Change the request, or get larger hosts.
    NEVER_FITS = "NEVER_FITS"
    #: A rule forbids it: zone, hint, group, extra spec, tenant. Relax the request, or change the hosts that the rule
    #: is about.
    POLICY = "POLICY"
    #: A placement would break a promise to survive the loss of hosts. Add hosts, or change 'fleet tolerance'.
    TOLERANCE = "TOLERANCE"
    #: The suitable hosts are disabled, forced down or silent, or there are none. See 'fleet service list'.
    HOSTS_DOWN = "HOSTS_DOWN"
    #: The scheduler's state is too old to decide, because it cannot read the database. Repair that.
    STALE_STATE = "STALE_STATE"
    #: Hosts were chosen, but were full when the claims arrived. Retry.
    RACE_LOST = "RACE_LOST"
    #: An option, a plugin or the request itself is wrong; the message names it.
    MISCONFIGURED = "MISCONFIGURED"
    #: A message was lost or not answered: see the broker, and the daemons at both ends.
    MESSAGING = "MESSAGING"
    #: A bug, or a failure of a host: see the message and the daemons' logs.
    INTERNAL = "INTERNAL"

    @classmethod
    def _missing_(cls, value: object) -> Reason:
        """Return INTERNAL for a code of a later release."""
        return cls.INTERNAL
