# SPDX-License-Identifier: Apache-2.0
"""The availability zone of a request, which may also force a host and a node.

:mod:`fleet.objects.build_request` parses it.
"""

from __future__ import annotations

import dataclasses

from fleet import errors


@dataclasses.dataclass(frozen=True)
class Zone:
    """``zone``, ``zone:host``, ``zone:host:node`` or ``zone::node``; '' means not given."""

    zone: str = ""
    host: str = ""
    node: str = ""

    @classmethod
    def parse(cls, text: str, field: str = "availability_zone") -> Zone:
        """:raises errors.InvalidInput: more than two colons"""
        parts = text.split(":")
        if len(parts) > 3:
            raise errors.InvalidInput(field=field, reason=f"is {text!r}, which is not ZONE[:HOST[:NODE]]")
        return cls(*parts)

    @property
    def forced(self) -> bool:
        return bool(self.host or self.node)
