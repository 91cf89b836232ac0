# SPDX-License-Identifier: Apache-2.0
"""JSON that every reader can read back: what messages carry, and what JSON columns store.

Python's ``json`` writes what stricter readers refuse or change: whole numbers beyond 64 bits, NaN, halves of surrogate
pairs, keys that are no text. One value of that kind in a row would make every list with the row fail. So it is refused
where it is parsed (:func:`require`), and nothing writes it (:func:`dumps`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from fleet import control_characters, errors

#: An object, one that is only read, and a list, as their writer has made them.
JSONObject = dict[str, Any]
JSONMapping = Mapping[str, Any]
JSONList = list[Any]

#: Range of whole numbers: signed and unsigned 64 bits, as readers in C have it.
LEAST_NUMBER, MOST_NUMBER = -(2**63), 2**64 - 1
#: How many lists and objects may be nested. The writer refuses 255.
MOST_DEPTH = 64
#: Characters of a path in an error.
_LONGEST_PATH = 200
_TOO_DEEP = f"is nested too deeply: at most {MOST_DEPTH} lists and objects may be nested"
#: Longer whole numbers are not computed: their value does not matter, they are out of range.
_MOST_DIGITS = 25
#: The shortest whole number beyond 64 bits has as many digits; all digits are written as this one.
_LONG_NUMBER, _DIGITS = b"0" * 19, bytes.maketrans(b"123456789", b"000000000")
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_ASCII = json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"))


def dumps(value: object, default: Callable[[Any], Any] | None = None) -> str:
    """Return ``value`` as ASCII JSON that :func:`loads` reads as an equal value.

    :param default: converts other types
    :raises errors.InvalidInput: naming the value by its path
    """
    text = _readable(value, default)
    if text is None:
        _refuse(value, "", default)
        # The strict writer refuses keys of subclasses of str, too.
        text = _ascii(default).encode(value)
    return text


def loads(text: str | bytes) -> Any:
    """Return the value of a JSON text. :raises ValueError: it is none, or holds what :func:`dumps` does not write"""
    return orjson.loads(text)


def parse(text: str | bytes, field: str = "") -> Any:
    """Return the value of a JSON text from outside.

    :param field: the prefix of what an error names
    :raises ValueError: it is no JSON
    :raises errors.InvalidInput: naming the value that could not be stored
    """
    try:
        found = parsed(text)
    except RecursionError:
        raise errors.InvalidInput(field=field or "body", reason=_TOO_DEEP) from None
    require(found, field)
    return found


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text, also one that could not be stored. :raises ValueError: RecursionError:"""
    return json.loads(text, parse_int=_whole_number)


def require(value: object, field: str = "", default: Callable[[Any], Any] | None = None) -> None:
    """Check that ``value`` can be stored and read back.

    :param field: the prefix of what an error names
    :raises errors.InvalidInput: naming the first value that cannot, by its path, and the limit
    """
    text = _readable(value, default)
    # The nesting is at most the number of brackets, and most values have few.
    if text is not None and text.count("[") + text.count("{") > MOST_DEPTH and is_deeper(value, MOST_DEPTH):
        raise errors.InvalidInput(field=field or "value", reason=_TOO_DEEP)
    if text is None:
        _refuse(value, field, default)


def require_whole_numbers(value: object, default: Callable[[Any], Any] | None = None) -> None:
    """Check that no whole number in ``value`` is beyond 64 bits: fast readers make it a float without a word.

    :raises errors.InvalidInput: naming the first one by its path
    """
    try:
        orjson.dumps(value, default, _STRICT | orjson.OPT_NON_STR_KEYS)
    except (TypeError, ValueError, RecursionError):
        # Other faults are the reader's to refuse: it knows the field.
        _refuse(value, "", default, _too_long)


def may_have_long_numbers(text: str) -> bool:
    """Return True if a JSON text may have a whole number that :func:`loads` returns as a float."""
    return _LONG_NUMBER in text.encode().translate(_DIGITS)


def is_deeper(value: object, most: int) -> bool:
    """Return True if ``value`` is nested more than ``most`` levels deep."""
    level = [value]
    for _depth in range(most):
        level = [inner for each in level for inner in _inside(each)]
        if not level:
            return False
    return True


def _inside(value: object) -> list[object]:
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else []


def require_printable(value: object, field: str = "") -> None:
    """Check that no text in ``value`` has a control character, which would be written to logs and terminals.

    :raises errors.InvalidInput: naming the first one by its path
    """
    # Escapes are rare in free-form values, and each control character is one, but for the last of ASCII.
    if "\\" in (text := dumps(value)) or "\x7f" in text:
        _refuse(value, field, None, _unprintable)


def _unprintable(value: object, _default: object = None) -> str:
    has_one = isinstance(value, str) and control_characters.has_any(value)
    return "must not contain control characters" if has_one else ""


def _readable(value: object, default: Callable[[Any], Any] | None) -> str | None:
    """Return ``value`` as ASCII JSON; None if a reader would refuse or change something in it."""
    try:
        data = orjson.dumps(value, default, _STRICT)
        # The strict writer turns NaN into null without a word. It is much faster, so the other one is asked only then.
        is_as_written = data.isascii() and (b"null" not in data or orjson.loads(data) == value)
        text = data.decode() if is_as_written else _ascii(default).encode(value)
    except (TypeError, ValueError, RecursionError):
        return None
    # Databases have no NUL character. The characters backslash, u and 0000 look alike here.
    return None if "\\u0000" in text and _has_faults(value, default) else text


def _ascii(default: Callable[[Any], Any] | None) -> json.JSONEncoder:
    if default is None:
        return _ASCII
    return json.JSONEncoder(allow_nan=False, check_circular=False, separators=(",", ":"), default=default)


def _has_faults(value: object, default: Callable[[Any], Any] | None) -> bool:
    return any(True for _fault_there in _faults(value, "", default, _fault))


def _refuse(
    value: object, field: str, default: Callable[[Any], Any] | None, fault: Callable[..., str] | None = None
) -> None:
    """:raises errors.InvalidInput: naming the first value with a fault; none if it has none"""
    for path, reason in _faults(value, field, default, fault or _fault):
        name = ".".join(part for part in path if part)[:_LONGEST_PATH].encode("ascii", "backslashreplace").decode()
        raise errors.InvalidInput(field=name or "value", reason=reason)


def _faults(
    value: object, field: str, default: Callable[[Any], Any] | None, fault: Callable[..., str]
) -> Iterator[tuple[list[str], str]]:
    """Yield path and reason of each value that cannot be stored. Without recursion: the depth is the sender's."""
    path: list[str] = []
    open_ones: list[Iterator[tuple[object, object]]] = [iter([(field, value)])]
    while open_ones:
        for key, each in open_ones[-1]:
            if not isinstance(key, str):
                yield path, "has a key that is no text"
            elif reason := fault(key):
                yield path, reason.replace("must not contain", "must have no key with", 1)
            if not isinstance(each, dict | list | tuple):
                if reason := fault(each, default):
                    yield [*path, str(key)], reason
            elif len(open_ones) > MOST_DEPTH:
                yield path[:1], _TOO_DEEP
            else:
                path.append(str(key))
                open_ones.append(iter(each.items()) if isinstance(each, dict) else _numbered(each))
                break
        else:
            open_ones.pop()
            del path[-1:]


def _numbered(values: list[object] | tuple[object, ...]) -> Iterator[tuple[object, object]]:
    return ((str(number), each) for number, each in enumerate(values))


def _fault(value: object, default: Callable[[Any], Any] | None = None) -> str:
    """Return why a value that is no list or object cannot be stored; empty if it can."""
    if value is None or isinstance(value, bool):
        return ""
    if isinstance(value, str):
        if "\0" in value:
            return "must not contain a NUL character"
        return "" if value.isascii() or _is_text(value) else "must not contain half a surrogate pair"
    if isinstance(value, int):
        fits = LEAST_NUMBER <= value <= MOST_NUMBER
        return "" if fits else "must be a whole number from -2**63 to 2**64 - 1"
    if isinstance(value, float):
        return "" if math.isfinite(value) else "must be a finite number"
    if default is not None:
        return ""
    return f"is no JSON value: {type(value).__name__}"


def _too_long(value: object, _default: object = None) -> str:
    return _fault(value) if isinstance(value, int) else ""


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole_number(digits: str) -> int:
    return int(digits) if len(digits) <= _MOST_DIGITS else 10**_MOST_DIGITS
