# SPDX-License-Identifier: Apache-2.0
"""``fleet trace``: the events of a request, an instance or a volume, across the daemons.

Registered in :mod:`fleet_cli.command_list`.
"""

from __future__ import annotations

import argparse
import datetime
import re
from collections.abc import Mapping, Sequence

from fleet import states, volume_states
from fleet.json_codec import JSONMapping, JSONObject
from fleet_cli.base import command, listing
from fleet_cli.base.output import moments

COLUMNS = (
    "time",
    "since_s",
    "server",
    "daemon",
    "host",
    "event",
    "attempt",
    "step",
    "outcome",
    "duration_s",
    "message",
)

_CONDUCTOR, _SCHEDULER, _COMPUTE = "fleet-conductor", "fleet-scheduler", "fleet-compute"
_VOLUME = "fleet-volume"
#: The daemon of an event, by its kind. Other events are of the agent of their host.
_TELLERS = {
    "create": _CONDUCTOR,
    "schedule": _SCHEDULER,
    "terminate": _CONDUCTOR,
    "fault": _CONDUCTOR,
}
#: Steps in which the conductor noticed the loss of an attempt.
_NOTICED = (states.CAST_STEP, *states.BUILD_STEPS)


#: Columns of the table; messages stand below it.
BRIEF = ("since_s", "server", "where", "event", "attempt", "outcome", "note")
_SENTENCE_END = re.compile(r"(?<=[.;])\s+")


class Trace(listing.Fitted, command.Lister):
    """Show what happened to an instance or a volume, or to all of a request, oldest first.

    Messages stand below the table, each sentence once. For a build or a volume on its way the last line, "now", has its
    step and its deadline.
    """

    arguments = (
        command.argument(
            "name",
            metavar="REQUEST|SERVER|VOLUME",
            help="A request id (req-…, as in the logs), a reservation id (r-…), or the name or uuid of an instance, a "
            "volume or a snapshot. Of a name that several have: the instance.",
        ),
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.conductor.operator.trace(name=parsed_args.name)
        told = lines(found)
        if parsed_args.columns or not self.is_table(parsed_args):
            return command.table(COLUMNS, told)
        print(heading(found), file=self.app.stdout)
        self.notes, numbers = notes([line["message"] or "" for line in told])
        several = len(_subjects(found)) > 1
        names = [name for name in BRIEF if several or name != "server"]
        return command.table(names, map(_brief, told, numbers))


def _subjects(found: JSONMapping) -> list[JSONMapping]:
    """The instances and volumes of an answer. An older conductor knows no volumes."""
    return [*found["instances"], *found.get("volumes", ())]


def heading(found: JSONMapping) -> str:
    """Return the instances, the request, and its beginning."""
    names = [f"{each['name']} ({each['uuid'][:8]})" for each in _subjects(found)]
    first = found["events"][0]
    request = f", {first['request_id']}" if first.get("request_id") else ""
    return f"{listing.some(names, 2)}{request}\nbegan {moments.shown(first['created_at'])} UTC"


def notes(messages: Sequence[str]) -> tuple[list[str], list[int | None]]:
    """Return the messages without repeated sentences, and for each message the number of its note.

    A message without a new sentence has the number of the note with its last sentence.
    """
    told: list[str] = []
    number_of: dict[str, int] = {}
    numbers: list[int | None] = []
    for message in messages:
        sentences = [each for each in _SENTENCE_END.split(message.strip()) if each]
        new = [each for each in dict.fromkeys(sentences) if each.rstrip(".;") not in number_of]
        if new:
            told.append(moments.shown(" ".join(new)))
            number_of.update({each.rstrip(".;"): len(told) for each in new})
        numbers.append(len(told) if new else number_of[sentences[-1].rstrip(".;")] if sentences else None)
    return told, numbers


def _brief(line: JSONMapping, note: int | None) -> JSONObject:
    daemon = line["daemon"].removeprefix("fleet-")
    event = f"{line['event']} ({line['step']})" if line["step"] else line["event"]
    return {**line, "where": line["host"] or daemon, "event": event, "note": note and f"({note})"}


def lines(found: JSONMapping) -> list[JSONObject]:
    """:param found: an answer of the conductor's ``trace``"""
    names = {each["uuid"]: each["name"] for each in _subjects(found)}
    began = _moment(found["events"][0]["created_at"])
    told = [_line(event, began, names[event.get("instance_uuid") or event["volume_uuid"]]) for event in found["events"]]
    told += [_now(each, began, _COMPUTE) for each in found["instances"] if each["task_state"]]
    return told + [_now(each, began, _VOLUME) for each in found.get("volumes", ()) if each["task_state"]]


def _line(event: JSONMapping, began: datetime.datetime, server: str) -> JSONObject:
    return {
        "time": event["created_at"],
        "since_s": _since(event["created_at"], began),
        "server": server,
        "daemon": daemon(event),
        "host": event.get("host"),
        "event": event["event"],
        "attempt": event.get("attempt") or None,
        "step": event.get("step"),
        "outcome": event["result"],
        "duration_s": None if event.get("duration_s") is None else round(event["duration_s"], 3),
        "message": event.get("message"),
    }


def _now(instance: JSONMapping, began: datetime.datetime, agent: str) -> JSONObject:
    since = instance["updated_at"] or began.isoformat()
    building = instance["vm_state"] in (states.BUILDING, volume_states.CREATING)
    until = f"given up at {instance['deadline']}" if building and instance["deadline"] else ""
    looked_at = f"looked at again at {instance['step_deadline']}" if instance["step_deadline"] else ""
    return {
        "time": since,
        "since_s": _since(since, began),
        "server": instance["name"],
        "daemon": agent if instance["host"] else _CONDUCTOR,
        "host": instance["host"],
        "event": "now",
        "attempt": instance["attempt"],
        "step": instance["task_state"],
        "outcome": "under way",
        "duration_s": None,
        "message": "; ".join(filter(None, (looked_at, until))),
    }


def daemon(event: JSONMapping) -> str:
    """Return the daemon of an event."""
    if event.get("volume_uuid"):
        return _of_volume(event)
    if event.get("step") in _NOTICED:
        return _CONDUCTOR
    return _TELLERS.get(event["event"]) or (_COMPUTE if event.get("host") else _CONDUCTOR)


def _of_volume(event: Mapping[str, object]) -> str:
    if event.get("step") in volume_states.ACTING:
        return _VOLUME
    return _SCHEDULER if event.get("step") else _CONDUCTOR


def _since(moment: str, began: datetime.datetime) -> float:
    return round((_moment(moment) - began).total_seconds(), 3)


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
