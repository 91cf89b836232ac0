# SPDX-License-Identifier: Apache-2.0
"""Parses durations as people write them, and formats them: ``90``, ``90s``, ``30m``, ``2h``, ``1d``.

Called by :mod:`fleet.client.argument_types`, :mod:`conductor_stub.conf` and :mod:`conductor_stub.builds.waiting`.
"""

from __future__ import annotations

import re
import types
from collections.abc import Mapping

_UNITS: Mapping[str, int] = types.MappingProxyType({"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400})
_FORM = re.compile(r"([0-9]{1,9})([smhd]?)")


def parse(text: str) -> int:
    """Return seconds. :raises ValueError: with the forms that are allowed"""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"must be a number of seconds, or a number with s, m, h or d, such as 30m or 2h; got {text!r}")
    return int(found[1]) * _UNITS[found[2]]


def shown(duration_s: float) -> str:
    """Return a duration in its two largest units: ``2 h 5 min``."""
    minutes, seconds = divmod(max(round(duration_s), 0), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [(days, "d"), (hours, "h"), (minutes, "min"), (seconds, "s")]
    first = next((number for number, (amount, _unit) in enumerate(parts) if amount), 3)
    return " ".join(f"{amount} {unit}" for amount, unit in parts[first : first + 2] if amount) or "0 s"
