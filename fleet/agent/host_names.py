# SPDX-License-Identifier: Apache-2.0
"""Expands options such as ``hosts`` to names: plain names, ranges, files.

Called by :mod:`compute_agent.main`, :mod:`compute_agent.checks` and :mod:`volume_agent.backends.backend`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fleet import errors
from fleet.objects import fields

_RANGE = re.compile(r"^([^\[\]]*)\[(\d+)-(\d+)\]([^\[\]]*)$")
#: Most hosts of one process; more are a typing error.
MAX_HOSTS = 10_000


def expand(elements: Iterable[str], option: str = "hosts") -> list[str]:
    """Return the names in the given order.

    :param option: whose value the elements are
    :raises errors.ConfigError: a malformed element, a file that cannot be read, a repeated name, or too many names
    """
    try:
        return _expand(elements)
    except _Malformed as wrong:
        raise errors.ConfigError(option=option, reason=str(wrong)) from None


class _Malformed(Exception):
    """The option is malformed."""


def _expand(elements: Iterable[str]) -> list[str]:
    names = [name for element in elements for name in _expand_element(element.strip())]
    twice = sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        raise _Malformed(f"names hosts twice: {', '.join(twice[:5])}")
    if len(names) > MAX_HOSTS:
        raise _Malformed(f"names {len(names)} hosts; one process serves at most {MAX_HOSTS}")
    return names


def _expand_element(element: str) -> list[str]:
    if element.startswith("@"):
        return [name for line in _lines(element[1:]) for name in _expand_element(line)]
    span = _RANGE.match(element)
    if span is None:
        return [_checked(element)]
    head, first, last, tail = span.groups()
    if int(first) > int(last):
        raise _Malformed(f"has {element!r}, which runs backwards")
    if int(last) - int(first) >= MAX_HOSTS:
        raise _Malformed(f"has {element!r}, which is longer than {MAX_HOSTS}")
    return [_checked(f"{head}{number:0{len(first)}d}{tail}") for number in range(int(first), int(last) + 1)]


def _lines(path: str) -> list[str]:
    try:
        with open(path, encoding="utf-8") as names:
            lines = [line.strip() for line in names]
    except (OSError, UnicodeDecodeError) as unreadable:
        raise _Malformed(f"names {path}, which cannot be read: {unreadable}") from None
    return [line for line in lines if line and not line.startswith("#")]


def _checked(name: str) -> str:
    if "[" in name or "]" in name:
        raise _Malformed(f"has {name!r}, which is not NAME, NAME[FIRST-LAST] or @FILE")
    try:
        return fields.parse(fields.Name, name, "hosts")
    except errors.InvalidInput as invalid:
        raise _Malformed(f"has the name {name!r}, which {invalid.reason}") from None
