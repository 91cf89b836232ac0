# SPDX-License-Identifier: Apache-2.0
"""Tolerances: promises that the guests of lost hosts have a place on the other hosts.

:mod:`conductor_stub.operators.tolerances` parses them; schedulers prove and keep them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

import pydantic

from fleet import errors
from fleet.objects import fields, host_labels
from fleet.objects.answers.tolerances import ToleranceView
from fleet.objects.survival import Loss

FLEET: Final = "fleet"
ZONE: Final = "zone"
AGGREGATE: Final = "aggregate"
WARN: Final = "warn"
LAST: Final = "last"
REFUSE: Final = "refuse"
Kind = Literal["fleet", "zone", "aggregate"]
Policy = Literal["warn", "last", "refuse"]
#: Losses of one tolerance that are looked at. More are "not proved".
MOST_LOSSES = 20_000
#: Hosts, or domains, that a tolerance may lose together.
MOST_LOST = 4


@dataclasses.dataclass(frozen=True)
class Tolerance:
    """The promise of a scope.

    :param kind: FLEET, ZONE or AGGREGATE; ``name``: of the zone or the aggregate, "" for the fleet
    :param number: hosts that may be lost together; with ``label``, values of this label whose hosts may be
    :param policy: what a placement does that would break it: WARN, LAST or REFUSE
    """

    kind: Kind = FLEET
    name: fields.Text = ""
    number: pydantic.conint(strict=True, ge=1, le=MOST_LOST) = 1  # type: ignore[valid-type]
    label: host_labels.Key | None = None
    policy: Policy = WARN

    @classmethod
    def from_wire(cls, data: object, field: str = "tolerance") -> Tolerance:
        """:raises errors.InvalidInput: naming the field"""
        made = fields.parse(cls, data, field)
        if (made.kind == FLEET) == bool(made.name):
            reason = "must be empty for the fleet" if made.name else f"must name the {made.kind}"
            raise errors.InvalidInput(field=f"{field}.name", reason=reason)
        return made

    @classmethod
    def of_fleet(cls, what: str, policy: str) -> Tolerance:
        """Return the promise of the fleet from a text like :attr:`what`. :raises errors.InvalidInput: it is none"""
        number, _space, noun = what.strip().partition(" ")
        if not (number.isdecimal() and number.isascii() and noun.strip()):
            raise errors.InvalidInput(field="tolerates", reason=f"is {what!r}, and must be like '1 host' or '1 rack'")
        label = None if noun.strip() in ("host", "hosts") else noun.strip()
        return cls.from_wire({"number": int(number[:9]), "label": label, "policy": policy}, "tolerates")

    def to_wire(self) -> ToleranceView:
        return {
            "kind": self.kind,
            "name": self.name,
            "number": self.number,
            "label": self.label,
            "policy": self.policy,
        }

    @property
    def scope(self) -> str:
        """Return the scope in words: ``fleet``, ``zone a``, ``aggregate racks``."""
        return f"{self.kind} {self.name}".strip()

    @property
    def what(self) -> str:
        """Return the loss in words: ``1 host``, ``2 hosts``, ``1 rack``."""
        noun = self.label or ("host" if self.number == 1 else "hosts")
        return f"{self.number} {noun}"

    def losses(self, hosts: Sequence[str], label_of: Mapping[str, str]) -> Iterator[Loss] | None:
        """Return the losses that the promise covers; None if there are too many to look at.

        :param hosts: of the scope, in order
        :param label_of: the value of ``label`` of those that have one. A host without it is a domain of its own
        """
        domains: dict[str, list[str]] = {}
        for host in hosts:
            value = label_of.get(host) if self.label else None
            domains.setdefault(host if value is None else f"{self.label}={value}", []).append(host)
        lost = min(self.number, len(domains))
        if not domains or math.comb(len(domains), lost) > MOST_LOSSES:
            return None if domains else iter(())
        return (
            Loss(" ".join(names), [host for name in names for host in domains[name]])
            for names in itertools.combinations(domains, lost)
        )
