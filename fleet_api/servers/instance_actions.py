# SPDX-License-Identifier: Apache-2.0
"""The actions of a server: its events, those of one request together.

Read only. Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Annotated, NotRequired

import falcon
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet_api.access import identity
from fleet_api.access.identity import ADMIN
from fleet_api.requests import answers, bodies, guard, paging
from fleet_api.requests.conductor import Conductor
from fleet_api.servers.servers import show

Event = JSONMapping

_SUCCESS = "success"
#: nova's name of the action, by the event that reports it.
_ACTIONS = {
    "create": "create",
    "resize": "resize",
    "confirm": "confirmResize",
    "revert": "revertResize",
    "evacuation": "evacuate",
    "live-migration": "live-migration",
    "terminate": "delete",
    "stop": "stop",
    "start": "start",
    "reboot": "reboot",
    "suspend": "suspend",
    "resume": "resume",
    "rebuild": "rebuild",
    "shelve": "shelve",
    "shelve-offload": "shelveOffload",
    "unshelve": "unshelve",
    "lock": "lock",
    "unlock": "unlock",
    "reset-state": "resetState",
}
#: Versions from which an answer has a field.
_OF_DELETED, _UPDATED, _HOSTS, _DETAILS = (2, 21), (2, 58), (2, 62), (2, 84)
#: Versions from which a list has parts and a beginning, and from which it has an end.
_PARTS, _CHANGED_BEFORE = (2, 58), (2, 66)
#: Most actions in one answer.
_MOST = 1000


class ActionEvent(TypedDict):
    event: str
    start_time: str
    finish_time: str
    result: str
    traceback: NotRequired[Annotated[None, answers.FOR_ADMINISTRATORS]]
    hostId: NotRequired[Annotated[str, answers.since("2.62")]]
    host: NotRequired[Annotated[str | None, answers.since("2.62", answers.OF_ALL_PROJECTS)]]
    details: NotRequired[Annotated[str | None, answers.since("2.84")]]


class ListedAction(TypedDict):
    action: str
    instance_uuid: str
    request_id: str
    project_id: str
    user_id: str
    start_time: str
    message: str | None
    updated_at: NotRequired[Annotated[str, answers.since("2.58")]]


class ActionShown(ListedAction):
    events: list[ActionEvent]


class InstanceActions:
    def __init__(self, conductor: Conductor) -> None:
        self._conductor = conductor

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer({"instanceActions": list[ListedAction]}, {"links": list[answers.Link]}))
    @bodies.asks("limit", "marker", "changes-since", "changes-before")
    def on_get(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        """The newest first. A marker is the id of a request."""
        instance, actions = self._actions(request, server_id)
        found: Sequence[tuple[str, list[Event]]]
        found = [each for each in reversed(actions.items()) if _is_asked(request, each[1])]
        more = False
        if request.context.version >= _PARTS:
            found, more = paging.cut(request, found, [request_id for request_id, _events in found], _MOST)
        response.media = {"instanceActions": [_view(request, instance, *each) for each in found]}
        if more:
            path = f"/servers/{server_id}/os-instance-actions"
            response.media["links"] = paging.next_link(request, path, found[-1][0])

    @guard.by("compute:servers:get")
    @answers.gives(answers.Answer({"instanceAction": ActionShown}))
    def on_get_one(self, request: falcon.Request, response: falcon.Response, server_id: str, request_id: str) -> None:
        instance, actions = self._actions(request, server_id)
        if request_id not in actions:
            raise errors.NotFound(kind="Action", name=request_id)
        events = actions[request_id]
        ended = [_event(request, each) for each in events if each["event"] not in ("create", "terminate")]
        response.media = {"instanceAction": {**_view(request, instance, request_id, events), "events": ended}}

    def _actions(self, request: falcon.Request, server_id: str) -> tuple[JSONMapping, dict[str, list[Event]]]:
        """Return the instance, and its events by request, the oldest first."""
        deleted_too = request.context.version >= _OF_DELETED
        found = show(self._conductor, request, server_id, deleted_too)
        actions: dict[str, list[Event]] = {}
        for event in found["events"]:
            # What an agent finds by itself belongs to no request of a user.
            known = event["request_id"] in actions
            if event["request_id"] and (known or event["event"] in _ACTIONS):
                actions.setdefault(event["request_id"], []).append(event)
        return found["instance"], actions


def _is_asked(request: falcon.Request, events: Sequence[Event]) -> bool:
    """Return True if the last change of an action is in the period of the request."""
    changed = _ended(events[-1])
    if request.context.version >= _PARTS and (since := bodies.moment(request, "changes-since")) and changed < since:
        return False
    before = bodies.moment(request, "changes-before") if request.context.version >= _CHANGED_BEFORE else None
    return before is None or changed <= before


def _view(request: falcon.Request, instance: JSONMapping, request_id: str, events: Sequence[Event]) -> ListedAction:
    shown: ListedAction = {
        "action": _ACTIONS[events[0]["event"]],
        "instance_uuid": instance["uuid"],
        "request_id": request_id,
        "project_id": instance["project_id"] or ADMIN,
        "user_id": instance["user_id"] or ADMIN,
        "start_time": _plain(_began(events[0])),
        "message": None if events[-1]["result"] == _SUCCESS else "Error",
    }
    if request.context.version >= _UPDATED:
        shown["updated_at"] = _plain(_ended(events[-1]))
    return shown


def _event(request: falcon.Request, event: Event) -> ActionEvent:
    """Names of hosts are for administrators, and so are messages, which have them."""
    version, sees_all, good = request.context.version, identity.sees_all(request), event["result"] == _SUCCESS
    shown: ActionEvent = {
        "event": f"compute_{event['event']}",
        "start_time": _plain(_began(event)),
        "finish_time": _plain(_ended(event)),
        "result": "Success" if good else "Error",
    }
    if sees_all:
        shown["traceback"] = None
    if version >= _HOSTS:
        shown["hostId"] = event.get("host_id") or ""
        if sees_all:
            shown["host"] = event["host"]
    if version >= _DETAILS:
        shown["details"] = event["message"] if sees_all and not good else None
    return shown


def _ended(event: Event) -> datetime.datetime:
    return datetime.datetime.fromisoformat(event["created_at"]).replace(tzinfo=None)


def _began(event: Event) -> datetime.datetime:
    return _ended(event) - datetime.timedelta(seconds=event["duration_s"] or 0)


def _plain(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="microseconds")
