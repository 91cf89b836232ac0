# SPDX-License-Identifier: Apache-2.0
"""Removes from answers of the conductor what a project may not read: names of hosts and pools, and their capacity.

It learns why a request was refused: the reason code, how many hosts each filter kept, and what the request lacks on
the nearest host. ``host_id`` tells whether two of its instances share a host. Called by
:mod:`conductor_stub.operators.tenancy`.
"""

from __future__ import annotations

from typing import Any

from conductor_stub.operators import answer_fields
from fleet import capacity, errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import host_id

#: Names of hosts, nodes and pools, and what names a place on them.
_PLACES = frozenset(
    {
        *("host", "node", "launched_on", "forced_host", "forced_node", "kept_host"),
        *("pool", "reference", "copy_from", "held_host", "held_node", "held_pool", "plan"),
        *("source_compute", "source_node", "dest_compute", "dest_node"),
    }
)
#: Lists of them.
_LISTS_OF_PLACES = frozenset({"hosts", "tried"})
#: What users have written: it is theirs.
_OF_USERS = frozenset({"metadata", "scheduler_hints", "extra_specs", "properties", "flavor", "image", "spec"})
#: Errors of requests that no host or pool takes.
_OF_PLACEMENT = (errors.NoValidHost.__name__, errors.MaxRetriesExceeded.__name__, errors.RequestExpired.__name__)
_NO_HOST = "No valid host was found."
_FAILED = "It has failed. An administrator sees where and why."


def answer_of(method: str, answer: object, project: str, key: str) -> object:
    """Return the answer of a method as its project may see it: the fields that are listed, without places."""
    return answer_fields.listed(redact(answer, project, key), answer_fields.ANSWERS.get(method, answer_fields.NOTHING))


def with_host_ids(answer: Any, key: str) -> object:
    """Return a list of instances, or one with its events, for an administrator: with the ids that its project sees."""
    if isinstance(answer, list):
        return [_with_id(each, each, key) for each in answer]
    instance = answer["instance"]
    events = [_with_id(each, instance, key) for each in answer["events"]]
    return {**answer, "instance": _with_id(instance, instance, key), "events": events}


def _with_id(record: JSONMapping, instance: JSONMapping, key: str) -> JSONObject:
    return {**record, "host_id": host_id.of(key, instance["project_id"] or "", record["host"])}


def redact(answer: object, project: str, key: str) -> object:
    """Return an answer of the conductor, of any shape, as its project may see it.

    :param key: from which ids of hosts are made

    MariaDB takes names that differ in case or accents for the same: a list of ``dev`` then has what ``Dev`` owns as well.
    """
    if isinstance(answer, list):
        return [redact(each, project, key) for each in answer if not _is_of_others(each, project)]
    if not isinstance(answer, dict):
        return answer
    shown = {
        name: redact(value, project, key) if isinstance(value, dict | list) and name not in _OF_USERS else value
        for name, value in answer.items()
    }
    shown.update(dict.fromkeys(_PLACES.intersection(answer)))
    for name in _LISTS_OF_PLACES.intersection(answer):
        shown[name] = []
    if "host" in answer:
        shown["host_id"] = host_id.of(key, project, answer["host"])
    if "message" in answer:
        shown.update(_without_places(answer))
    return shown


def _is_of_others(answer: object, project: str) -> bool:
    return isinstance(answer, dict) and answer.get("project_id") not in (None, project)


def _without_places(said: JSONMapping) -> JSONObject:
    """A fault, the reason of a failure, an event, or why a build waits: the texts name hosts."""
    if "details" not in said:
        return {"message": None if "event" in said else _NO_HOST}
    details = said["details"] or {}
    kept = {name: details[name] for name in ("reason_code",) if name in details}
    if said.get("error") not in _OF_PLACEMENT:
        return {"message": _FAILED, "details": kept}
    counts = [{name: each[name] for name in ("name", "start", "end")} for each in details.get("filters") or ()]
    if counts:
        kept["filters"] = counts
    return {"message": " ".join([_NO_HOST, *_counted(counts), *_lacking(details)]), "details": kept}


def _counted(counts: list[JSONObject]) -> list[str]:
    kept = ", ".join(f"{each['name']} kept {each['end']} of {each['start']}" for each in counts)
    return [f"Hosts: {kept}."] if kept else []


def _lacking(details: JSONMapping) -> list[str]:
    """Return a sentence with the amounts that the nearest host lacks. A host without numbers is passed over."""
    for miss in details.get("nearest") or ():
        lacks = [
            f"{capacity.shown(each['lacks'])} {each['unit'] or ''} of {each['resource']}"
            for each in miss.get("shortfalls") or ()
        ]
        if lacks:
            return [f"The nearest host lacks {', '.join(' '.join(lack.split()) for lack in lacks)}."]
    return []
