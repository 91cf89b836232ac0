# SPDX-License-Identifier: Apache-2.0
"""``fleet trace``: what happened to a request or an instance, step by step, across the daemons."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Mapping
from typing import Any

from fleet import states
from fleet.cli import command

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
#: Who tells of what; anything else is told by the agent of the host that it names.
_TELLERS = {
    "create": _CONDUCTOR,
    "schedule": _SCHEDULER,
    "terminate": _CONDUCTOR,
    "fault": _CONDUCTOR,
}
#: An attempt that was lost in one of these: it was the conductor who noticed.
_NOTICED = (states.CAST_STEP, *states.BUILD_STEPS)


class Trace(command.Lister):
    """Show what happened to an instance, or to all instances of a request, oldest first.

    A build that is under way ends with a line "now": the step it is in, and when it is given up.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "name",
            metavar="REQUEST|SERVER",
            help="A request id (req-…, as in the logs), a reservation id (r-…), or an instance's name or uuid.",
        )
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        return command.table(COLUMNS, lines(self.conductor.operator("trace", name=parsed_args.name)))


def lines(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """:param found: an answer of the conductor's ``trace``"""
    names = {each["uuid"]: each["name"] for each in found["instances"]}
    began = _moment(found["events"][0]["created_at"])
    told = [_line(event, began, names[event["instance_uuid"]]) for event in found["events"]]
    return told + [_now(each, began) for each in found["instances"] if each["task_state"]]


def _line(event: Mapping[str, Any], began: datetime.datetime, server: str) -> dict[str, Any]:
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


def _now(instance: Mapping[str, Any], began: datetime.datetime) -> dict[str, Any]:
    since = instance["updated_at"] or began.isoformat()
    building = instance["vm_state"] == states.BUILDING
    until = f"; given up at {instance['deadline']}" if building and instance["deadline"] else ""
    looked_at = f"looked at again at {instance['step_deadline']}" if instance["step_deadline"] else ""
    return {
        "time": since,
        "since_s": _since(since, began),
        "server": instance["name"],
        "daemon": _COMPUTE if instance["host"] else _CONDUCTOR,
        "host": instance["host"],
        "event": "now",
        "attempt": instance["attempt"],
        "step": instance["task_state"],
        "outcome": "under way",
        "duration_s": None,
        "message": f"{looked_at}{until}",
    }


def daemon(event: Mapping[str, Any]) -> str:
    """Which daemon an event is about."""
    if event.get("step") in _NOTICED:
        return _CONDUCTOR
    return _TELLERS.get(event["event"]) or (_COMPUTE if event.get("host") else _CONDUCTOR)


def _since(moment: str, began: datetime.datetime) -> float:
    return round((_moment(moment) - began).total_seconds(), 3)


def _moment(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).replace(tzinfo=None)
