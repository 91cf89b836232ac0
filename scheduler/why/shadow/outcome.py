# SPDX-License-Identifier: Apache-2.0
"""How a verdict compares with the host that nova gave a server."""

from __future__ import annotations

import dataclasses
import enum

from scheduler.nova.shadow.verdict import Verdict


class Kind(enum.Enum):
    """``FITS``: nova's host passes the filters here, and another has more weight."""

    SAME = "same"
    FITS = "fits"
    DROPPED = "dropped"
    REFUSED_HERE = "refused here"
    REFUSED_THERE = "refused by nova"
    BOTH_REFUSED = "both refused"


@dataclasses.dataclass(frozen=True)
class Outcome:
    """:param reason: the filter that drops nova's host, or the reason code of the refusal here"""

    kind: Kind
    flavor: str
    reason: str = ""
    here: str = ""
    there: str = ""


def compare(verdict: Verdict, position: int, host: str | None) -> Outcome:
    """Compare for one instance.

    :param position: of the instance in its request
    :param host: where nova put it; None if it was put nowhere
    """
    flavor = verdict.flavor
    if not verdict.hosts:
        kind = Kind.BOTH_REFUSED if host is None else Kind.REFUSED_HERE
        reason = verdict.dropped.get(host or "", "") or verdict.refusal
        return Outcome(kind, flavor, reason, "", host or "")
    here = verdict.hosts[position]
    if host is None:
        return Outcome(Kind.REFUSED_THERE, flavor, "", here)
    # The instances of one request are alike: which of them is on which host does not matter.
    if host in verdict.hosts:
        return Outcome(Kind.SAME, flavor, "", host, host)
    if host in verdict.dropped:
        return Outcome(Kind.DROPPED, flavor, verdict.dropped[host], here, host)
    return Outcome(Kind.FITS, flavor, "", here, host)
