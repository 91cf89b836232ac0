# SPDX-License-Identifier: Apache-2.0
"""Constrained field types, and the parser that turns wire data into values.

Every module here that parses uses it, as do the arguments of remote calls. Values are plain frozen dataclasses. Code
inside a service creates them freely. Data from outside goes through :func:`parse`, which ignores unknown keys and
names a wrong field.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

import pydantic
from pydantic_core import CoreSchema, core_schema

from fleet import clock, control_characters, errors, json_codec
from fleet.json_codec import JSONMapping, JSONObject

Value = TypeVar("Value")

#: Text fit for a log line and a database column: no control characters (NUL, newline), at most 255 characters.
_PRINTABLE = r"^[^\x00-\x1f\x7f-\x9f\x{2028}\x{2029}]*$"
INT32_MAX = 2**31 - 1
#: Of a text that is not long.
MOST_CHARACTERS = 255
MAX_INSTANCES = 1000

#: Bytes of a long text: MariaDB's type TEXT holds no more.
_MOST_TEXT_BYTES = 65535


def _within_bytes(text: str) -> str:
    """:raises ValueError: it is too long for its column"""
    if not text.isascii() and len(text.encode()) > _MOST_TEXT_BYTES:
        raise ValueError(f"must have at most {_MOST_TEXT_BYTES} bytes as UTF-8")
    return text


Text = Annotated[str, pydantic.Strict(), pydantic.StringConstraints(max_length=MOST_CHARACTERS, pattern=_PRINTABLE)]
LongText = Annotated[
    str,
    pydantic.Strict(),
    pydantic.StringConstraints(max_length=_MOST_TEXT_BYTES, pattern=r"^[^\x00]*$"),
    pydantic.AfterValidator(_within_bytes),
]
Name = Annotated[str, pydantic.Strict(), pydantic.StringConstraints(min_length=1, max_length=255, pattern=_PRINTABLE)]
Uuid = Annotated[
    str,
    pydantic.Strict(),
    pydantic.StringConstraints(pattern=r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"),
]
Uuids = Annotated[list[Uuid], pydantic.Field(max_length=1000)]
Natural = Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=INT32_MAX)]
Positive = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=INT32_MAX)]
Integer = Annotated[int, pydantic.Strict()]
Bytes = Annotated[int, pydantic.Strict(), pydantic.Field(ge=0, le=2**63 - 1)]
InstanceCount = Annotated[int, pydantic.Strict(), pydantic.Field(ge=1, le=MAX_INSTANCES)]
#: Identifies one run of a process.
Token = Annotated[str, pydantic.Strict(), pydantic.StringConstraints(max_length=64, pattern=_PRINTABLE)]
Finite = Annotated[float, pydantic.Field(allow_inf_nan=False)]
#: The largest allocation ratio: limits stay numbers that JSON has.
MOST_RATIO = 10_000
Ratio = Annotated[float, pydantic.Field(ge=0, le=MOST_RATIO, allow_inf_nan=False)]
Flag = Annotated[bool, pydantic.Strict()]
Texts = Annotated[dict[Name, Text], pydantic.Field(max_length=128)]
#: As JSON has it: signed and unsigned 64 bits.
Whole = Annotated[int, pydantic.Field(ge=json_codec.LEAST_NUMBER, le=json_codec.MOST_NUMBER)]
Scalars = Annotated[dict[Name, LongText | Whole | Finite | bool | None], pydantic.Field(max_length=256)]
#: Bytes as JSON of what a user gives an object beside its sizes: metadata, hints, extra specs, image properties. Lists read
#: them, so this bounds what a list costs.
MOST_BYTES = 16 * 1024
#: Characters of a refused text that its refusal repeats.
_SHOWN = 70
#: pydantic's last part of the place of a key.
_KEY = "[key]"
_PLAIN_KEY = r"[A-Za-z0-9_.:-]{1,64}"
#: Text of a whole number. int() takes long for thousands of digits.
_DIGITS = r"-?[0-9]{1,20}"


@dataclasses.dataclass(frozen=True)
class Matching:
    """A constraint of a text: all of it matches a pattern. A pattern of pydantic's own would not say what is allowed.

    :param allowed: the rest of the sentence "the field must be ...", for the user whose text does not match
    """

    pattern: str
    allowed: str

    def __get_pydantic_core_schema__(self, source: object, handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: pydantic.GetJsonSchemaHandler) -> JSONObject:
        return {**handler(schema), "pattern": f"^{self.pattern}$"}

    def check(self, text: str) -> str:
        """Return ``text``. :raises ValueError: it does not match"""
        if re.fullmatch(self.pattern, text) is None:
            shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
            raise ValueError(f"must be {self.allowed}, got '{control_characters.one_line(shown)}'")
        return text


@dataclasses.dataclass(frozen=True)
class WholeNumber:
    """A constraint of an int: a whole number of JSON, or its digits as text, as clients of nova send it. No boolean is one.

    pydantic's own conversion also takes ``true``, ``2.0``, ``" 2 "``, ``"+1"`` and ``"1_0"``.
    """

    least: int
    most: int

    def __get_pydantic_core_schema__(self, _source: object, _handler: pydantic.GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._number)

    def __get_pydantic_json_schema__(self, _schema: CoreSchema, _handler: pydantic.GetJsonSchemaHandler) -> JSONObject:
        number = {"type": "integer", "minimum": self.least, "maximum": self.most}
        return {"anyOf": [number, {"type": "string", "pattern": "^-?[0-9]+$"}]}

    def _number(self, value: object) -> int:
        if isinstance(value, str) and re.fullmatch(_DIGITS, value) is not None:
            value = int(value)
        if type(value) is not int or not self.least <= value <= self.most:
            raise ValueError(f"must be a whole number from {self.least} to {self.most}")
        return value


METADATA_KEY = Matching(
    r"(?!\.{1,2}$)[a-zA-Z0-9\-_:. ]{1,255}",
    "1 to 255 ASCII letters, digits, blanks and characters of '-_:.', and neither '.' nor '..'",
)
#: A key of metadata, as nova and cinder have it. Clients put it into paths of requests without quoting it, and HTTP
#: libraries resolve dot segments: with the key ``../../ID`` they would send a request about another object.
MetadataKey = Annotated[Name, METADATA_KEY]
#: Metadata that a request sets. What is stored is :data:`Texts`: earlier releases accepted other keys.
Metadata = Annotated[dict[MetadataKey, Text], pydantic.Field(max_length=128)]


@functools.cache
def _adapter(cls: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(cls)


def parse(cls: type[Value], data: object, field: str = "") -> Value:
    """Return ``data`` as a ``cls`` (a dataclass or any annotated type).

    :param field: path of ``data`` in the whole request, the prefix of the field that an error names
    :raises errors.InvalidInput: naming the first offending field
    """
    try:
        parsed: Value = _adapter(cls).validate_python(data)  # type: ignore[arg-type] # a class is hashable
        return parsed
    except pydantic.ValidationError as invalid:
        raise invalid_input(invalid, field) from None
    except RecursionError:
        raise errors.InvalidInput(field=field or "request", reason="is nested too deeply") from None


def parse_text(cls: type[Value], text: str) -> Value | None:
    """Return a ``cls`` from its JSON text, much faster than :func:`parse`; None if the text needs :func:`parse`."""
    try:
        parsed: Value = _adapter(cls).validate_json(text)  # type: ignore[arg-type] # a class is hashable
        return parsed
    except (pydantic.ValidationError, RecursionError):
        return None


def require_small(values: Mapping[str, object], field: str) -> None:
    """Check free-form values before they are stored.

    :raises errors.InvalidInput: they have more than MOST_BYTES in all, a value that could not be read back, or a control
        character
    """
    json_codec.require(values, field)
    json_codec.require_printable(values, field)
    size = len(json_codec.dumps(values))
    if size > MOST_BYTES:
        reason = f"has {size} bytes as JSON, at most {MOST_BYTES} are allowed"
        raise errors.InvalidInput(field=field, reason=reason)


def naive_utc(moment: datetime.datetime | None, field: str) -> datetime.datetime | None:
    """Return a time as :func:`fleet.clock.naive_utc` does. :raises errors.InvalidInput: naming ``field``"""
    try:
        return moment and clock.naive_utc(moment)
    except ValueError as wrong:
        raise errors.InvalidInput(field=field, reason=str(wrong)) from None


def invalid_input(invalid: pydantic.ValidationError, field: str = "") -> errors.InvalidInput:
    """Return pydantic's first complaint as the error that callers see."""
    first = invalid.errors(include_url=False, include_input=False)[0]
    place, reason = [*map(str, first["loc"])], _reason(first)
    if place[-1:] == [_KEY]:
        place = place[:-1]
        if re.fullmatch(_PLAIN_KEY, place[-1]) is None:
            # It may be anything, and long.
            place, reason = place[:-1], f"has a key that {reason}"
    path = ".".join(part for part in (field, *place) if part) or "request"
    return errors.InvalidInput(field=path, reason=reason)


def _reason(error: JSONMapping) -> str:
    """Return pydantic's sentence, without patterns and without Python types that JSON does not have."""
    if error["type"] == "string_pattern_mismatch":
        if "[0-9a-fA-F]" in error["ctx"]["pattern"]:
            return "must be a UUID"
        return "must not contain control characters"
    if error["type"] == "tuple_type":
        return "must be a valid list"
    # What a validator of ours says stands after "Value error, ".
    message = str(error["ctx"]["error"] if error["type"] == "value_error" else error["msg"])
    if error["type"] in ("too_long", "too_short") and error["ctx"]["field_type"] == "Tuple":
        message = message.replace("Tuple", "List", 1)
    if error["type"] == "missing":
        return "is required"
    if error["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is not known here"
    # "Input should be a valid integer", "String should have at most 255 characters"
    return re.sub(r"^\w+ should ", "must ", message)
