# SPDX-License-Identifier: Apache-2.0
"""``POST /servers/ID/action``: moves, power, rebuilds, locks and consoles.

Other actions of nova are answered with 501. Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, Literal, NotRequired

import falcon
import pydantic
from typing_extensions import TypedDict

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields
from fleet.objects.changes import DiskConfig
from fleet.rpc.clients.operator.instances import ToPlace
from fleet_api.access import identity, rules
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.faults import NotHere
from fleet_api.servers import server_forms, server_view
from fleet_api.servers.input import rebuild
from fleet_api.servers.input.microversion_fields import require_known
from fleet_api.servers.servers import show


@dataclasses.dataclass(frozen=True)
class _Resize:
    __pydantic_config__ = bodies.STRICT

    flavorRef: fields.Name | fields.Integer
    disk_config: Annotated[DiskConfig | None, pydantic.Field(validation_alias="OS-DCF:diskConfig")] = None


@dataclasses.dataclass(frozen=True)
class _Migrate:
    __pydantic_config__ = bodies.STRICT

    host: fields.Name | None = None


def _as_reported(shared: bool) -> bool:
    if shared:
        raise ValueError("must be false or left out: hosts report whether they share disks, and shared disks are kept")
    return shared


@dataclasses.dataclass(frozen=True)
class _Evacuate:
    __pydantic_config__ = bodies.STRICT

    host: fields.Name | None = None
    #: Accepted for older clients, and not used: the guest keeps the password that it was built with.
    adminPass: fields.Name | None = dataclasses.field(default=None, repr=False)
    #: The filters always decide.
    force: Literal[False] = False
    #: A caller that sends true wants its disk kept, which a host without shared storage cannot do.
    onSharedStorage: Annotated[fields.Flag, pydantic.AfterValidator(_as_reported)] = False


@dataclasses.dataclass(frozen=True)
class _Live:
    __pydantic_config__ = bodies.STRICT

    host: fields.Name | None = None
    #: Disks are always copied, and the filters always decide.
    block_migration: Literal["auto", True] = "auto"
    force: Literal[False] = False
    disk_over_commit: fields.Flag = False


@dataclasses.dataclass(frozen=True)
class _Reboot:
    __pydantic_config__ = bodies.STRICT

    type: Literal["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]


@dataclasses.dataclass(frozen=True)
class _Console:
    __pydantic_config__ = bodies.STRICT

    #: Clients send it as a number or as text; -1 asks for all.
    length: Annotated[int, fields.WholeNumber(-1, fields.INT32_MAX)] | None = None


@dataclasses.dataclass(frozen=True)
class _Lock:
    __pydantic_config__ = bodies.STRICT

    locked_reason: fields.Name | None = None


@dataclasses.dataclass(frozen=True)
class _Reset:
    __pydantic_config__ = bodies.STRICT

    state: Literal["active", "error"]


@dataclasses.dataclass(frozen=True)
class _Unshelve:
    """Null is any zone."""

    __pydantic_config__ = bodies.STRICT

    availability_zone: fields.Name | None = None
    host: fields.Name | None = None


_ACTIONS: JSONMapping = {
    "resize": _Resize,
    "confirmResize": None,
    "revertResize": None,
    "migrate": _Migrate | None,
    "os-stop": None,
    "os-start": None,
    "suspend": None,
    "resume": None,
    "reboot": _Reboot,
    "os-getConsoleOutput": _Console | None,
    "evacuate": _Evacuate | None,
    "os-migrateLive": _Live,
    "lock": _Lock | None,
    "unlock": None,
    "os-resetState": _Reset,
    "rebuild": rebuild.Rebuild,
    "shelve": None,
    "unshelve": _Unshelve | None,
    "shelveOffload": None,
    "restore": None,
    "forceDelete": None,
}
#: By field, the version from which a server is unshelved there.
_UNSHELVE_SINCE = {"availability_zone": (2, 77), "host": (2, 91)}
#: The version from which a lock has a reason.
_LOCK_REASON = (2, 73)
#: Actions with a rule of their own.
_ADMINISTRATIVE = {
    "migrate": rules.MIGRATE,
    "evacuate": rules.EVACUATE,
    "os-migrateLive": rules.MIGRATE_LIVE,
    "os-resetState": rules.RESET_STATE,
    "shelveOffload": rules.SHELVE_OFFLOAD,
}


class _Done(TypedDict):
    """The result of an action. Only the console has an output."""

    output: NotRequired[str]


#: Versions from which the answer to a rebuild has a field.
_KEY_OF_REBUILD, _USER_DATA_OF_REBUILD = (2, 54), (2, 57)


class _Anew(TypedDict):
    """Fields that only the answer to a rebuild has. ``user_data`` are those of the request."""

    adminPass: NotRequired[str]
    key_name: NotRequired[Annotated[str | None, answers.since("2.54")]]
    user_data: NotRequired[Annotated[str | None, answers.since("2.57")]]


class Rebuilt(server_forms.ChangedServer, _Anew):
    """A server whose guest is made anew, before version 2.75."""


class RebuiltWhole(server_forms.ListedServer):
    """The same from version 2.75 on."""

    adminPass: NotRequired[str]
    user_data: str | None
    server_groups: NotRequired[list[str]]


class Actions:
    """:param passwords: makes a password for a guest that is made anew; None: no answer has one"""

    def __init__(self, conductor: Conductor, passwords: Callable[[], str] | None = None) -> None:
        self._conductor = conductor
        self._passwords = passwords
        #: By name: the work, and the status of the answer.
        self._known: dict[str, tuple[Callable[[falcon.Request, str, object], object], str]] = {
            "resize": (self._resize, falcon.HTTP_202),
            "confirmResize": (self._plain("confirm_resize"), falcon.HTTP_204),
            "revertResize": (self._plain("revert_resize"), falcon.HTTP_202),
            "migrate": (self._to_host("migrate", "migrate_instance", _Migrate), falcon.HTTP_202),
            "os-migrateLive": (self._to_host("os-migrateLive", "live_migrate_instance", _Live), falcon.HTTP_202),
            "os-stop": (self._plain("stop_instance"), falcon.HTTP_202),
            "os-start": (self._plain("start_instance"), falcon.HTTP_202),
            "reboot": (self._reboot, falcon.HTTP_202),
            "suspend": (self._plain("suspend_instance"), falcon.HTTP_202),
            "resume": (self._plain("resume_instance"), falcon.HTTP_202),
            "os-getConsoleOutput": (self._console, falcon.HTTP_200),
            "lock": (self._lock, falcon.HTTP_202),
            "unlock": (self._plain("unlock_instance"), falcon.HTTP_202),
            "os-resetState": (self._reset, falcon.HTTP_202),
            "shelve": (self._plain("shelve_instance"), falcon.HTTP_202),
            "unshelve": (self._unshelve, falcon.HTTP_202),
            "shelveOffload": (self._plain("shelve_offload_instance"), falcon.HTTP_202),
            "rebuild": (self._rebuild, falcon.HTTP_202),
            "restore": (self._restore, falcon.HTTP_202),
            "forceDelete": (self._delete, falcon.HTTP_202),
            "evacuate": (self._to_host("evacuate", "evacuate_instance", _Evacuate), falcon.HTTP_200),
        }

    @guard.by("compute:servers:action")
    @answers.gives(answers.Answer(entire=_Done))
    @answers.gives(answers.Answer(optional={"server": Rebuilt | RebuiltWhole}), 202)
    @answers.gives(answers.NOTHING, 204)
    @bodies.takes(bodies.Body(_ACTIONS))
    def on_post(self, request: falcon.Request, response: falcon.Response, server_id: str) -> None:
        body = bodies.whole(request)
        if len(body) != 1:
            raise errors.InvalidInput(field="action", reason="is required, and there can be only one")
        ((name, wanted),) = body.items()
        show(self._conductor, request, server_id)
        if name not in self._known:
            raise NotHere(f"The action {name[:100]}")
        if name in _ADMINISTRATIVE:
            identity.require(request, _ADMINISTRATIVE[name])
        work, response.status = self._known[name]
        answer = work(request, server_id, wanted)
        if answer is not None or response.status == falcon.HTTP_200:
            response.media = answer or {}

    def _plain(self, method: str) -> Callable[[falcon.Request, str, Any], object]:
        """Return the work of an action without arguments."""

        def work(request: falcon.Request, server_id: str, wanted: object) -> None:
            _arguments(wanted)
            self._conductor.operator(request).call(method, name=server_id)

        return work

    def _to_host(
        self, action: str, method: str, kind: type[_Migrate | _Live | _Evacuate]
    ) -> Callable[[falcon.Request, str, Any], object]:
        """Return the work of an action that may name the only host to consider."""

        def work(request: falcon.Request, server_id: str, wanted: object) -> None:
            host = fields.parse(kind, _arguments(wanted), action).host
            with bodies.naming(f"{action}.host"):
                self._conductor.operator(request).call(method, name=server_id, **({"host": host} if host else {}))

        return work

    def _reboot(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        kind = fields.parse(_Reboot, wanted, "reboot").type
        hard = {"hard": True} if kind.upper() == "HARD" else {}
        self._conductor.operator(request).reboot_instance(name=server_id, **hard)

    def _console(self, request: falcon.Request, server_id: str, wanted: object) -> _Done:
        most = fields.parse(_Console, _arguments(wanted), "os-getConsoleOutput").length
        printed = self._conductor.operator(request).get_console_output(name=server_id)
        if most in (None, -1):
            return {"output": printed}
        # What follows the last end of a line counts as a line, also if it is empty.
        lines = printed.split("\n")
        return {"output": "\n".join(lines[len(lines) - min(most, len(lines)) :])}

    def _rebuild(self, request: falcon.Request, server_id: str, wanted: object) -> JSONObject:
        """Return the server as it is then."""
        asked = rebuild.parse(request, self._conductor, wanted)
        if self._passwords is not None:
            asked.setdefault("admin_password", self._passwords())
        self._conductor.operator(request).rebuild_instance(name=server_id, request=asked)
        found = show(self._conductor, request, server_id)
        server: JSONObject = {**server_view.changed(request, found)}
        if request.context.version >= _KEY_OF_REBUILD:
            server["key_name"] = found["instance"].get("key_name")
        if request.context.version >= _USER_DATA_OF_REBUILD:
            server["user_data"] = asked.get("user_data") or None
        if self._passwords is not None:
            server["adminPass"] = asked["admin_password"]
        return {"server": server}

    def _unshelve(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        """Before version 2.77 the value is ignored, as in nova."""
        body = _arguments(wanted) if request.context.version >= _UNSHELVE_SINCE["availability_zone"] else {}
        given = fields.parse(_Unshelve, body, "unshelve")
        require_known(request, "unshelve", body, _UNSHELVE_SINCE)
        to: ToPlace = {}
        if "availability_zone" in body:
            to["availability_zone"] = given.availability_zone or ""
        if given.host:
            identity.require(request, rules.UNSHELVE_HOST)
            to["host"] = given.host
        with bodies.naming("unshelve.host"):
            self._conductor.operator(request).unshelve_instance(name=server_id, **to)

    def _lock(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        """Before version 2.73 the value is ignored, as in nova."""
        given = _arguments(wanted) if request.context.version >= _LOCK_REASON else {}
        reason = fields.parse(_Lock, given, "lock").locked_reason
        self._conductor.operator(request).lock_instance(name=server_id, **({"reason": reason} if reason else {}))

    def _restore(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        """A deletion is final: no server waits to be restored. :raises errors.Conflict:"""
        _arguments(wanted)
        raise errors.Conflict(kind="Server", name=server_id, reason="is not SOFT_DELETED: a deletion is final")

    def _delete(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        """Delete the server, as each deletion does it: at once."""
        identity.require(request, rules.DELETE)
        _arguments(wanted)
        self._conductor.terminate(request, server_id)

    def _reset(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        state = fields.parse(_Reset, wanted, "os-resetState").state
        self._conductor.operator(request).reset_state(name=server_id, state=state)

    def _resize(self, request: falcon.Request, server_id: str, wanted: object) -> None:
        given = fields.parse(_Resize, wanted, "resize")
        with bodies.naming("resize.flavorRef"):
            flavor = self._conductor.flavor(request, str(given.flavorRef))
        # By its id: only the administrator gives sizes.
        self._conductor.operator(request).resize_instance(name=server_id, flavor=flavor.flavorid)
        if given.disk_config is not None:
            changes = {"disk_config": given.disk_config}
            self._conductor.operator(request).update_instance(name=server_id, changes=changes)


def _arguments(wanted: object) -> Any:
    """:raises errors.InvalidInput:"""
    if wanted is not None and not isinstance(wanted, dict):
        raise errors.InvalidInput(field="action", reason="must be null or an object")
    return wanted or {}
