# SPDX-License-Identifier: Apache-2.0
"""The reference of the HTTP API has every request, rule, parameter and object of the served document."""

from __future__ import annotations

import importlib.util
import pathlib
import types
from typing import Any

import pytest

from tests.api_document import ApiDocument

ROOT = pathlib.Path(__file__).parents[3]


def load() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("http_reference", ROOT / "docs/_ext/http_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


http_reference = load()


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return ApiDocument().document


def test_the_document_is_the_served_one(document: dict[str, Any]) -> None:
    assert document == http_reference.served()


def test_everything_is_there(document: dict[str, Any]) -> None:
    """Each request once, with its rule and its parameters; each object once, and every link leads to one."""
    text = http_reference.as_text(document)
    lines = text.splitlines()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            start = lines.index(f"{method.upper()} {path}")
            block = "\n".join(lines[start : start + 12])
            assert 1 == lines.count(f"{method.upper()} {path}")
            assert (
                f"``{operation['x-policy-rule']}``" in block if "x-policy-rule" in operation else "no sign-in" in block
            )
            for each in operation["parameters"]:
                assert each["in"] == "path" or f"``{each['name']}``" in block
    labels = [line.removeprefix(".. _").rstrip(":") for line in lines if line.startswith(".. _http-object-")]
    assert len(document["components"]["schemas"]) == len(labels) == len(set(labels))
    links = {part.split(">")[0] for part in text.split("<http-object-")[1:]}
    assert {f"http-object-{each}" for each in links} <= set(labels)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({}, "any value"),
        ({"type": "integer", "minimum": 1, "maximum": 9}, "integer (at least 1, at most 9)"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/answers.Link"}},
            "list of :ref:`Link <http-object-answers-link>`",
        ),
        ({"enum": ["a", "b"]}, "``a`` or ``b``"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "object with values: string"),
    ],
)  # fmt: skip
def test_kinds_of_values(schema: dict[str, Any], words: str) -> None:
    """In words; bounds are said."""
    assert words == http_reference._type(schema)
