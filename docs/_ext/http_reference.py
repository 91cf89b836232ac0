# SPDX-License-Identifier: Apache-2.0
"""Sets the document of the HTTP API (OpenAPI) as a page: each request with its fields, each object with its own.

A page includes it with ``.. http-reference::``. The document is the one that ``GET /fleet/v1/openapi.json`` serves, and is
made of the code that serves the requests.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

#: By the beginning of a path, the heading; the longest beginning counts.
PARTS: Mapping[str, str] = {
    "/v2.1/": "Compute, below /v2.1",
    "/v3/": "Block storage, below /v3",
    "/v2/": "Images, below /v2",
    "/v2.0/": "Networks, below /v2.0",
    "/fleet/v1/": "fleet's own, below /fleet/v1",
    "/": "Discovery",
}
_OBJECTS = "#/components/schemas/"
_METHODS = ("get", "post", "put", "patch", "delete")
#: Keys of a schema that bound its values, in words.
_BOUNDS: Mapping[str, str] = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "maxItems": "at most {} entries",
    "pattern": "of the form ``{}``",
}


def as_text(document: Mapping[str, Any]) -> str:
    """Return the page as reStructuredText."""
    paths = sorted(document["paths"].items(), key=lambda item: (list(PARTS).index(_part(item[0])), item[0]))
    lines: list[str] = []
    for part, of_part in itertools.groupby(paths, key=lambda item: _part(item[0])):
        lines += _heading(PARTS[part], "=")
        for path, operations in of_part:
            for method in _METHODS:
                if method in operations:
                    lines += _operation(method.upper(), path, operations[method])
    lines += _heading("Objects", "=")
    for name, schema in sorted(document["components"]["schemas"].items()):
        lines += [f".. _{_label(name)}:", "", *_heading(_shown(name), "-"), *_text_of(schema), *_fields(schema)]
    return "\n".join(lines)


def _part(path: str) -> str:
    return max((begin for begin in PARTS if path.startswith(begin)), key=len)


def _heading(text: str, rule: str) -> list[str]:
    return ["", text, rule * len(text), ""]


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> list[str]:
    lines = _heading(f"{method} {path}", "-")
    lines += [_escaped(operation["summary"]), ""] if operation["summary"] else []
    rule = operation.get("x-policy-rule")
    lines += [f"Rule: ``{rule}``." if rule else "Needs no sign-in.", ""]
    asked = [f"``{each['name']}``" for each in operation["parameters"] if each["in"] == "query"]
    lines += [f"Parameters: {', '.join(asked)}.", ""] if asked else []
    if "requestBody" in operation:
        (schema,) = (each["schema"] for each in operation["requestBody"]["content"].values())
        lines += [f"Body: {_type(schema)}.", "", *_fields(schema)]
    for status, answer in operation["responses"].items():
        if status.isdecimal():
            forms = [f"{_type(each['schema'])}" for each in answer.get("content", {}).values()]
            lines += [f"Answer {status}: {', or '.join(forms) or 'empty'}.", ""]
            for each in answer.get("content", {}).values():
                lines += _fields(each["schema"])
    return lines


def _fields(schema: Mapping[str, Any]) -> list[str]:
    """Return a table of the fields of an object that is described here; empty for others."""
    rows = list(_rows(schema))
    if not rows:
        return []
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 30 70", "", "   * - Field", "     - Value"]
    for name, text in rows:
        lines += [f"   * - ``{name}``", f"     - {text}"]
    return [*lines, ""]


def _rows(schema: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    forms = schema.get("oneOf") or schema.get("anyOf") or [schema]
    seen: set[str] = set()
    for form in forms:
        for name, field in form.get("properties", {}).items():
            if name not in seen:
                seen.add(name)
                needed = "Required. " if name in form.get("required", ()) and len(forms) == 1 else ""
                said = " ".join(_text_of(field)).strip()
                yield name, f"{needed}{_type(field)}.{' ' + said if said else ''}"


def _text_of(schema: Mapping[str, Any]) -> list[str]:
    said = " ".join(str(schema.get("description", "")).split())
    return [_escaped(said), ""] if said else []


def _type(schema: Any) -> str:
    """Return the kind of a value in words; objects with a name are links."""
    if not isinstance(schema, Mapping) or not schema:
        return "any value"
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_OBJECTS)
        return f":ref:`{_shown(name)} <{_label(name)}>`"
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[key]))
    if "const" in schema:
        return f"``{schema['const']}``"
    if "enum" in schema:
        return " or ".join(f"``{each}``" for each in schema["enum"])
    kinds = schema.get("type", "any value")
    said = " or ".join(kinds) if isinstance(kinds, list) else str(kinds)
    if kinds == "array":
        said = f"list of {_type(schema.get('items'))}"
    elif kinds == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        said = f"object with values: {_type(schema['additionalProperties'])}"
    bounds = [form.format(schema[key]) for key, form in _BOUNDS.items() if key in schema]
    return f"{said} ({', '.join(bounds)})" if bounds else said


def _label(name: str) -> str:
    return "http-object-" + re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def _shown(name: str) -> str:
    """Return the name of an object for readers."""
    return name.rpartition(".")[2] if name.startswith("answers.") else name


def _escaped(text: str) -> str:
    return re.sub(r"([*_|\\])", r"\\\1", text)


def served() -> dict[str, Any]:
    """Return the document of this release."""
    from oslo_config import cfg

    import fleet.conf
    from fleet_api import conf as api_conf
    from fleet_api.application import routes
    from fleet_api.own.openapi import document

    conf = cfg.ConfigOpts()
    fleet.conf.register_opts(conf)
    api_conf.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    return document(routes(None, conf, None))  # type: ignore[arg-type]  # nothing is asked


def setup(app: Any) -> dict[str, bool]:
    from sphinx.util.docutils import SphinxDirective

    class HttpReference(SphinxDirective):
        """``.. http-reference::``"""

        def run(self) -> list[Any]:
            return self.parse_text_to_nodes(as_text(served()), allow_section_headings=True)

    app.add_directive("http-reference", HttpReference)
    return {"parallel_read_safe": True}
