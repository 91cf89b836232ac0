# SPDX-License-Identifier: Apache-2.0
"""Reads JSON columns. A value that cannot be read harms only its own row.

This release writes no such value (:mod:`fleet.json_codec`), but earlier releases could, and a disk can fail. Readers get
an empty object of the type :class:`Unreadable` in its place, so lists, sweeps and feeds go on. Code that makes an object of
the row logs its name (:func:`note`).
"""

from __future__ import annotations

from typing import Any

from oslo_log import log as logging

from fleet import json_codec
from fleet.json_codec import JSONObject
from fleet.telemetry import metrics, rate_limited_log

LOG = logging.getLogger(__name__)

#: Lists and objects that the writer of JSON nests.
_DEEPEST = 250
_said = rate_limited_log.RateLimit()


class Unreadable(JSONObject):
    """Stands for a value that cannot be read. It is empty and false, and each key of it is one more of its kind.

    ``text`` is the value as it is stored.
    """

    text: str = ""

    def __missing__(self, key: str) -> Unreadable:
        return Unreadable()


def read(text: str | bytes) -> Any:
    """Return the value of a column; :class:`Unreadable` if it cannot be read, or not be sent on as JSON."""
    value, problem = _read(text)
    if not problem:
        return value
    metrics.UNREADABLE_VALUES.inc()
    left_out = _said.due()
    if left_out is not None:
        LOG.error(
            "A stored JSON value cannot be read, and counts as empty: %s, %d characters (%d more since the last such line). "
            "'fleet doctor' names the row",
            *(problem, len(text), left_out),
        )
    # Not an argument: copies of a dict are made by its type, as by dataclasses.asdict.
    found = Unreadable()
    found.text = text if isinstance(text, str) else text.decode(errors="backslashreplace")
    return found


def fault(text: str | bytes) -> str | None:
    """Return why a stored text cannot be read, without quoting the text; None if it can be read."""
    return _read(text)[1] or None


def _read(text: str | bytes) -> tuple[object, str]:
    try:
        value = json_codec.loads(text)
    except ValueError as unreadable:
        return None, str(unreadable).partition(":")[0][:80]
    # The nesting is at most the number of brackets, and most values have few.
    brackets = (text.count("[") + text.count("{")) if isinstance(text, str) else text.count(b"[") + text.count(b"{")
    too_deep = brackets > _DEEPEST and json_codec.is_deeper(value, _DEEPEST)
    return (None, "nested too deeply") if too_deep else (value, "")


def is_unreadable(value: object) -> bool:
    """Return True if ``value`` stands for one that cannot be read."""
    return isinstance(value, Unreadable)


def note(value: object, table: str, key: object) -> None:
    """Name the row in the log, once a minute for each, if ``value`` cannot be read."""
    if not isinstance(value, Unreadable):
        return
    left_out = _said.due(f"{table} {key}")
    if left_out is not None:
        LOG.error("The row %s of %s cannot be read; delete it, or have its owner do so", key, table)
