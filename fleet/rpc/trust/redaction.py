# SPDX-License-Identifier: Apache-2.0
"""Removes names and sizes of hosts from the answers to callers that have the key of a project.

A project sees the code of a refusal, how many hosts each filter kept, and what its request lacks. ``fleet-api`` has a key
for all projects and does this by itself, in the forms of its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Names of hosts, nodes, backends and pools.
_PLACES = frozenset(
    (
        *("host", "hosts", "node", "launched_on", "forced_host", "forced_node", "kept_host", "pool", "copy_from"),
        *("held_host", "held_node", "held_pool", "source_compute", "source_node", "dest_compute", "dest_node", "plan"),
    )
)
#: What users have written.
_OF_USERS = frozenset(("metadata", "scheduler_hints", "tags", "name", "description"))
#: Sizes of a host, beside what a request lacks there.
_SIZES = frozenset(("limit", "used"))


def without_hosts(answer: Any) -> Any:
    """Return a copy of an answer."""
    if isinstance(answer, list):
        return [without_hosts(each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    hidden = _PLACES | _SIZES if "lacks" in answer else _PLACES
    return {name: None if name in hidden else _shown(name, value, answer) for name, value in answer.items()}


def _shown(name: str, value: Any, record: Mapping[str, Any]) -> Any:
    if name in _OF_USERS:
        return value
    if name == "message":
        return _reason(record)
    return "" if name == "text" else without_hosts(value)


def _reason(record: Mapping[str, Any]) -> str | None:
    """Return a word in place of a sentence that may name hosts: the code of the refusal, or the name of the error."""
    details = record.get("details")
    code = details.get("reason_code") if isinstance(details, dict) else None
    return code or record.get("reason") or record.get("error")
