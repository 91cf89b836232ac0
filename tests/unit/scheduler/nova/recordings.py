# SPDX-License-Identifier: Apache-2.0
"""The recorded messages, by name; and requests made from them."""

from __future__ import annotations

import copy
import functools
import json
import pathlib
from typing import Any

FOLDER = pathlib.Path(__file__).parent / "recorded"
REQUESTS = sorted(path.stem for path in FOLDER.glob("req_*.json") if path.stem != "req_ping")


def message(name: str) -> dict[str, Any]:
    """A copy of what was on the wire."""
    return copy.deepcopy(_read(name))


@functools.cache
def _read(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text())["message"]


def arguments(name: str = "req_build_1", **fields: Any) -> dict[str, Any]:
    """The arguments of a recorded call, with some fields of its RequestSpec replaced."""
    found = message(name)["args"]
    found["spec_obj"]["nova_object.data"].update(fields)
    return found


def envelope(name: str, version: str = "1.0", **data: Any) -> dict[str, Any]:
    return {
        "nova_object.name": name,
        "nova_object.namespace": "nova",
        "nova_object.version": version,
        "nova_object.data": data,
    }


def flavor(**fields: Any) -> dict[str, Any]:
    """The flavor of the recorded build, with some fields replaced."""
    found = message("req_build_1")["args"]["spec_obj"]["nova_object.data"]["flavor"]
    found["nova_object.data"].update(fields)
    return found


def contents(value: Any) -> Any:
    """A value without envelopes, and without their lists of changes."""
    if isinstance(value, dict):
        return {key: contents(each) for key, each in value.get("nova_object.data", value).items()}
    return [contents(each) for each in value] if isinstance(value, list) else value
