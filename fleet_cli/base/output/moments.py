# SPDX-License-Identifier: Apache-2.0
"""Times for people: one format, in UTC. Programs get the ISO 8601 text of the wire.

Called by the commands that show times.
"""

from __future__ import annotations

import re

from cliff import columns

_ISO = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(\.\d+)?(Z|\+00:00)?")


class Moment(columns.FormattableColumn):
    def human_readable(self) -> str:
        return shown(self._value)


def is_moment(value: object) -> bool:
    return isinstance(value, str) and _ISO.fullmatch(value) is not None


def shown(text: str) -> str:
    """``2026-01-31T12:00:00.123Z`` as ``2026-01-31 12:00:00``, also where it stands in a sentence."""
    return _ISO.sub(r"\1 \2", text)
