# SPDX-License-Identifier: Apache-2.0
"""Requests made of the document of the API, and then damaged: what a client can send that has never read the manual.

A request is a choice of ``random.Random``, so the same choices make the same request: hypothesis makes them smaller, and the
chaos scenario ``messages:http-fuzz`` repeats them by seed.
"""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any
from urllib import parse

from tests.hostile.requests import BODIES, CALLS, PARAMETERS, filled, path_of


class Raw(str):
    """JSON as it is sent."""


_DEEP = 1000
#: Texts for every place that takes a text. ``{server}`` and the like are of another project.
TEXTS: Sequence[str] = (
    *(
        "",
        " ",
        "a",
        "-1",
        "0",
        "1",
        "1.5",
        "1_000",
        "0x10",
        " 1 ",
        "\uff11\uff12",
        "9" * 321,
        "1e309",
        "NaN",
        "null",
        "true",
    ),
    *("{server}", "{volume}", "{snapshot}", "{group}", "{migration}", "{token}-server", "{project}", "{host}", "small"),
    *("\0", "\x1b[2J", "a\nb", "\r\nX-Forged: 1", "\x7f", "\u202e", "\u2028", "\U0001f600", "%00", "%s%n", "%2e%2e%2f"),
    *("../../etc/passwd", "http://169.254.169.254/", "' OR 1=1 --", "(a+)+$", "(((", "\\", "'", '"', "<script>", "*"),
    *(
        "x" * 256,
        "x" * 70_000,
        "deadbeef",
        "00000000-0000-0000-0000-000000000000",
        "2026-11-23T00:00:00Z",
        "all",
        "host:node",
    ),
)
#: JSON for every place of a body.
VALUES: Sequence[Raw] = tuple(
    map(
        Raw,
        (
            *(
                "null",
                "true",
                "false",
                "0",
                "-0",
                "-1",
                "1.5",
                "1e309",
                "-1e309",
                "1e-400",
                "NaN",
                "Infinity",
                "9" * 321,
            ),
            *(
                "2147483648",
                "9223372036854775808",
                "-9223372036854775809",
                "[]",
                "{}",
                "[null]",
                '{"": ""}',
                '[[["a"]]]',
            ),
            *('"\\ud800"', '"\\udfff\\ud800"', '{"\\ud800": 1}', '"\\u0000"', '{"\\u0000": 1}', '{"a": 1, "a": 2}'),
            *("[" * 70 + "]" * 70, "[" * _DEEP + "]" * _DEEP, '{"a":' * 70 + "1" + "}" * 70),
            "[" + ",".join("1" * 20_000) + "]",
            "{" + ",".join(f'"k{number}": "v"' for number in range(3000)) + "}",
        ),
    )
)
#: What is sent in place of a body.
BODIES_INSTEAD: Sequence[bytes] = (
    *(b"", b" ", b"[]", b"null", b"7", b'"text"', b"{", b"}", b"{]", b'{"server"', b"\xff\xfe", b"\x00", b"NaN"),
    *(b'{"server": {}} trailing', b"server=1&name=2", b"<server/>", b"[" * 100_000, b'{"a":' * 50_000),
    b'{"server": {"name": "\xff"}}',
)
_TYPES = (
    "application/json",
    "application/xml",
    "text/plain",
    "",
    "multipart/form-data",
    "application/json; charset=utf-7",
)
_VERSIONS = (
    "compute latest",
    "compute 2.1",
    "compute 2.95",
    "compute 9.9",
    "compute",
    "volume 3.70",
    "compute 2." + "9" * 30,
)


@dataclasses.dataclass(frozen=True)
class Sent:
    """``target`` is path and query, percent-encoded."""

    route: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    def __str__(self) -> str:
        return f"{self.method} {self.target[:300]} {dict(self.headers)} {self.body[:300] if self.body else self.body!r}"


class Fuzz:
    """:param document: of the API; ids: what ``{server}`` and the like stand for"""

    def __init__(self, document: Mapping[str, Any], ids: Mapping[str, str]) -> None:
        self._schemas = document["components"]["schemas"]
        self._operations = {
            f"{method.upper()} {path}": operation
            for path, operations in sorted(document["paths"].items())
            for method, operation in sorted(operations.items())
        }
        self._routes = sorted(self._operations)
        self._ids = ids

    def request(self, chance: random.Random) -> Sent:
        route = chance.choice(self._routes)
        headers = {"OpenStack-API-Version": chance.choice(_VERSIONS) if chance.random() < 0.2 else _VERSIONS[0]}
        if chance.random() < 0.1:
            headers[chance.choice(("Idempotency-Key", "Last-Event-ID", "Accept"))] = self._header(chance)
        target = self._path(chance, route) + self._query(chance, route)
        body = self._body(chance, route) if "requestBody" in self._operations[route] or chance.random() < 0.05 else None
        if body is not None:
            headers["Content-Type"] = chance.choice(_TYPES) if chance.random() < 0.1 else _TYPES[0]
        return Sent(route, target, headers, body)

    def _text(self, chance: random.Random) -> str:
        return filled(chance.choice(TEXTS), self._ids) if chance.random() < 0.95 else "y" * chance.randrange(2000)

    def _header(self, chance: random.Random) -> str:
        """What HTTP can carry in a header."""
        return "".join(each for each in self._text(chance) if " " <= each < "\x7f")[:1000]

    def _path(self, chance: random.Random, route: str) -> str:
        path = route.partition(" ")[2]
        if route == CALLS:
            path = path.format(topic=chance.choice(("operator", "compute_task", "scheduler")), method="{call}")
        parts = path.split("/")
        for number, part in enumerate(parts):
            if part == "{call}":
                parts[number] = chance.choice(_CALLED)
            elif part.startswith("{") and chance.random() < 0.4:
                parts[number] = self._text(chance)[:500]
            elif part.startswith("{"):
                parts[number] = filled(PARAMETERS[part[1:-1]], self._ids) if part[1:-1] in PARAMETERS else "a"
        if route != CALLS and chance.random() < 0.5:
            return path_of(route.partition(" ")[2], self._ids)
        return "/".join(_quoted(each) for each in parts)

    def _query(self, chance: random.Random, route: str) -> str:
        known = [each["name"] for each in self._operations[route]["parameters"] if each["in"] == "query"]
        if not known and chance.random() < 0.9:
            return ""
        names = chance.choices([*known, "unknown"], k=chance.randrange(4))
        pairs = "&".join(f"{_quoted(name)}={_quoted(self._text(chance)[:5000])}" for name in names)
        return f"?{pairs}" if pairs else ""

    def _body(self, chance: random.Random, route: str) -> bytes:
        if chance.random() < 0.1:
            return chance.choice(BODIES_INSTEAD)
        known = BODIES.get(route, ())
        content = self._operations[route].get("requestBody", {"content": {"application/json": {"schema": {}}}})[
            "content"
        ]
        if known and chance.random() < 0.6:
            made = filled(chance.choice(known), self._ids)
        else:
            made = self._of(chance, content["application/json"]["schema"], 0)
        for _damage in range(chance.choice((0, 1, 1, 1, 2, 4))):
            made = self._damaged(chance, made)
        return _dumps(made).encode("utf-8", "surrogatepass")

    def _of(self, chance: random.Random, schema: Any, depth: int) -> Any:
        """A value of a schema."""
        if depth > 8 or not isinstance(schema, Mapping):
            return None
        if "$ref" in schema:
            return self._of(chance, self._schemas[schema["$ref"].rpartition("/")[2]], depth + 1)
        for choice in ("oneOf", "anyOf"):
            if choice in schema:
                return self._of(chance, chance.choice(schema[choice]), depth + 1)
        if "enum" in schema:
            return chance.choice(schema["enum"])
        kind = schema.get("type", "string")
        kind = chance.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            parts = schema.get("properties", {})
            wanted = [name for name in parts if name in schema.get("required", ()) or chance.random() < 0.3]
            return {name: self._of(chance, parts[name], depth + 1) for name in wanted}
        if kind == "array":
            return [self._of(chance, schema.get("items", {}), depth + 1) for _each in range(chance.randrange(3))]
        if kind in ("integer", "number"):
            return chance.choice((schema.get("minimum", 0), schema.get("maximum", 7), 1))
        return {"boolean": True, "null": None}.get(kind, schema.get("const", self._text(chance)))

    def _damaged(self, chance: random.Random, value: Any) -> Any:
        """The value with one place changed."""
        if isinstance(value, dict) and value and chance.random() < 0.85:
            name = chance.choice(sorted(value))
            how = chance.random()
            if how < 0.1:
                return {each: of for each, of in value.items() if each != name}
            if how < 0.2:
                return {**value, self._text(chance): self._value(chance)}
            return {**value, name: self._damaged(chance, value[name])}
        if isinstance(value, list) and value and chance.random() < 0.8:
            place = chance.randrange(len(value))
            return [*value[:place], self._damaged(chance, value[place]), *value[place + 1 :]]
        return self._value(chance)

    def _value(self, chance: random.Random) -> Any:
        return chance.choice(VALUES) if chance.random() < 0.6 else self._text(chance)


#: Calls of the ``fleet`` command, besides those that the routes make.
_CALLED = (
    *("list_instances", "show_instance", "create", "update_instance", "list_events", "create_volumes", "show_quota"),
    *("create_flavor", "update_flavor", "newest_faults", "explain", "capacity", "no_such_method", "__init__"),
)


def _quoted(text: str) -> str:
    return parse.quote(text.encode("utf-8", "surrogatepass"), safe="")


def _dumps(value: Any) -> str:
    """JSON with the parts that are sent as they are."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(name)}: {_dumps(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dumps, value)) + "]"
    return json.dumps(value)
