# SPDX-License-Identifier: Apache-2.0
"""The processor that a running guest sees. A live migration asks for it, and the scheduler's filter compares it."""

from __future__ import annotations

import dataclasses
import functools
import json
from typing import Self

from fleet.objects import fields

#: Different processors of hosts that are kept parsed. A large report takes a megabyte.
_PARSED = 64
#: Features that a sentence names.
_NAMED = 5


@dataclasses.dataclass(frozen=True)
class GuestCpu:
    """``vendor`` and ``features`` have libvirt's names; ``vendor`` is empty if it is not known."""

    vendor: fields.Text = ""
    features: list[fields.Text] = dataclasses.field(default_factory=list)

    @classmethod
    def of_report(cls, cpu_info: str | None) -> Self:
        """Return the processor in a host's ``cpu_info``, without features if it is not one."""
        vendor, features = _parsed(cpu_info or "")
        return cls(vendor, sorted(features))

    def missing_in(self, cpu_info: str | None) -> list[str]:
        """Return the names of what a host lacks to run the guest; empty if it can.

        A host that reports no features lacks all of them.
        """
        vendor, features = _parsed(cpu_info or "")
        other = [f"vendor {self.vendor}"] if self.vendor and self.vendor != vendor else []
        return [*other, *sorted(set(self.features) - features)]

    def lacks(self, cpu_info: str | None) -> str:
        """Return what a host lacks to run the guest, as the end of a sentence about the host."""
        missing = self.missing_in(cpu_info)
        more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
        return f"lacks {', '.join(missing[:_NAMED])}{more}"


@functools.lru_cache(_PARSED)
def _parsed(cpu_info: str) -> tuple[str, frozenset[str]]:
    try:
        found = json.loads(cpu_info)
    except (ValueError, RecursionError):
        return "", frozenset()
    features = found.get("features") if isinstance(found, dict) else None
    if not isinstance(features, list):
        return "", frozenset()
    return str(found.get("vendor") or ""), frozenset(str(each) for each in features)
