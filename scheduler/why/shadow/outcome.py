# SPDX-License-Identifier: Apache-2.0
"""Compares the verdict of a shadow with the host that an instance got.

Called by :mod:`scheduler.compute.drivers.shadow`; :mod:`scheduler.why.shadow.ledger` counts the outcomes.
"""

from __future__ import annotations

import dataclasses
import enum

from scheduler.why.shadow.verdict import Verdict


class Kind(enum.Enum):
    """``FITS``: the host passes the shadow's filters, and another has more weight there. ``DROPPED``: it does not, or the
    request excludes it, or the shadow does not know it.
    """

    SAME = "same"
    FITS = "fits"
    DROPPED = "dropped"
    REFUSED_IN_SHADOW = "refused in the shadow"
    PLACED_IN_SHADOW = "placed in the shadow only"
    BOTH_REFUSED = "both refused"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """:param reason: the filter that drops the host or another reason for that, or the reason code of the shadow's refusal
    :param here: the shadow's host
    :param there: the host that the instance got
    """

    kind: Kind
    flavor: str
    reason: str = ""
    here: str = ""
    there: str = ""


def compare(verdict: Verdict, position: int, host: str | None) -> Outcome:
    """Compare for one instance.

    :param position: of the instance in its request
    :param host: where the instance is; None if it found no host
    """
    flavor = verdict.flavor
    if not verdict.hosts:
        kind = Kind.BOTH_REFUSED if host is None else Kind.REFUSED_IN_SHADOW
        reason = (host and verdict.objection(host)) or verdict.refusal
        return Outcome(kind, flavor, reason, "", host or "")
    here = verdict.hosts[position]
    if host is None:
        return Outcome(Kind.PLACED_IN_SHADOW, flavor, "", here)
    # The instances of one request are alike: which of them is on which host does not matter.
    if host in verdict.hosts:
        return Outcome(Kind.SAME, flavor, "", host, host)
    if reason := verdict.objection(host):
        return Outcome(Kind.DROPPED, flavor, reason, here, host)
    return Outcome(Kind.FITS, flavor, "", here, host)
