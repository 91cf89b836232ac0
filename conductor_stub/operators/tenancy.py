# SPDX-License-Identifier: Apache-2.0
"""Limits callers that act for a project (``is_admin`` of their context is false) to calls about objects of that project.

``fleet-api`` decides by roles what each user may do. This check is in the conductor, behind it: it holds for every message,
and with signed messages a sender cannot claim another project, or to be the administrator (``fleet.rpc.trust.signing``).
It looks at the namespace ``operator``, and at ``create`` and ``terminate_instances``; other methods are those of daemons.

A name is looked up here, among the objects of the project only, and the method receives the uuid. Uuids and projects of
objects never change, so nothing that is renamed, deleted or created afterwards can take the object's place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeGuard

from conductor_stub.operators import offers, redaction
from fleet import errors
from fleet.db.catalog import groups
from fleet.db.engine.database import Connection, Database
from fleet.db.instances import instances
from fleet.db.schema import identity
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import fields

Arguments = JSONMapping
#: (connection, project, arguments) -> the arguments that the method receives.
_Check = Callable[[Connection, str, Arguments], Arguments]


def _anything(_connection: Connection, _project: str, arguments: Arguments) -> Arguments:
    """Allow a method without objects of projects, or a method that checks the project itself."""
    return arguments


def _own_instance(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """:raises errors.NotFound: errors.Conflict: several have the name"""
    return _by_uuid(arguments, "name", lambda name: instances.find(connection, name, project).uuid)


def _own_unlocked_instance(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """:raises errors.NotFound: errors.Conflict: several have the name, or it is locked"""

    def uuid_of(name: str) -> str:
        row = instances.find(connection, name, project)
        instances.require_unlocked(row)
        return row.uuid

    return _by_uuid(arguments, "name", uuid_of)


def _own_of_list(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """Narrow ``uuids`` to instances of the project. A uuid of another project is left out, as one that never was."""
    uuids = arguments.get("uuids")
    if not isinstance(uuids, list):
        return arguments
    strangers = set(_strangers(connection, project, _texts(uuids)))
    return {**arguments, "uuids": [each for each in uuids if not isinstance(each, str) or each not in strangers]}


def _all_own_unlocked(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """:raises errors.NotFound: an instance is another project's, or there never was one; errors.Conflict: one is locked"""
    uuids = _texts(arguments.get("instance_uuids"))
    for stranger in _strangers(connection, project, uuids):
        raise errors.NotFound(kind="Instance", name=stranger)
    for row in instances.of_uuids(connection, uuids):
        instances.require_unlocked(row)
    return arguments


def _strangers(connection: Connection, project: str, texts: Sequence[str]) -> list[str]:
    """Return the uuids of which the project has no instance, in their order. Other texts are left for the method."""
    uuids = [each for each in texts if _is(fields.Uuid, each)]
    own = instances.of_project(connection, uuids, project) if uuids else set()
    return [each for each in uuids if each not in own]


def _own_storage(kind: volumes.Kind, name: str) -> _Check:
    """:param name: the argument that names a volume or a snapshot"""

    def check(connection: Connection, project: str, arguments: Arguments) -> Arguments:
        return _by_uuid(arguments, name, lambda text: volumes.find(connection, text, kind, project).uuid)

    return check


def _own_group(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    return _by_uuid(arguments, "name", lambda name: groups.find(connection, name, project).uuid)


def _own_guest_and_volume(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    found = _own_storage("Volume", "volume")(connection, project, arguments)
    return _own_unlocked_instance(connection, project, found)


def _own_origin(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """Check the volume or snapshot that a new volume copies."""
    request = arguments.get("request")
    if not isinstance(request, dict):
        return arguments
    found = _own_storage("Volume", "source")(connection, project, request)
    return {**arguments, "request": _own_storage("Snapshot", "snapshot")(connection, project, found)}


def _own_list(_connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """A list is narrowed to the project. :raises errors.NotTrusted: the filters name another one, or a place

    An order by places is refused, too: it tells how the names of hosts compare.
    """
    filters = _mapping(arguments.get("filters"))
    offers.require_no_places([name for name, value in filters.items() if value is not None])
    sort = arguments.get("sort")
    offers.require_no_places([name for key in (sort if isinstance(sort, list) else ()) for name in _texts(key)])
    _require_own(filters.get("project_id"), project)
    return {**arguments, "filters": {**filters, "project_id": project}}


def _own_project(_connection: Connection, project: str, arguments: Arguments) -> Arguments:
    _require_own(arguments.get("project_id"), project)
    return {**arguments, "project_id": project}


def _own_build(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    """No filter would decide on a forced host, and one that is requested tells which hosts there are. The group is looked
    up by the method, once and inside the project: a repeated request must get its first answer also after the group is gone.

    :raises errors.NotTrusted: errors.NotFound: a volume of another project
    """
    request = _mapping(arguments.get("request"))
    requested = request.get("requested_host") or request.get("requested_node")
    if requested or ":" in str(request.get("availability_zone", "")):
        raise errors.NotTrusted(reason="only the administrator names the host of a build")
    wanted = request.get("block_device_mapping")
    if not isinstance(wanted, list):
        return arguments
    own = _own_storage("Volume", "volume_id")
    found = [own(connection, project, each) if isinstance(each, dict) else each for each in wanted]
    return {**arguments, "request": {**request, "block_device_mapping": found}}


_ONE_INSTANCE = ("show_instance", "get_console_output", "lock_instance", "unlock_instance")
#: Refused while the instance is locked.
_CHANGES_OF_INSTANCE = (
    *("update_instance", "stop_instance", "start_instance", "reboot_instance", "rebuild_instance"),
    *("shelve_instance", "unshelve_instance"),
    *("suspend_instance", "resume_instance", "resize_instance", "confirm_resize", "revert_resize"),
)
_ONE_VOLUME = ("show_volume", "update_volume", "extend_volume", "retype_volume", "delete_volume")
_ONE_SNAPSHOT = ("show_snapshot", "update_snapshot", "delete_snapshot")
_OPEN = (
    *("list_flavors", "show_flavor", "list_images", "show_image", "list_volume_types"),
    *("list_groups", "create_group", "list_events", "list_decisions"),
    *("list_key_pairs", "create_key_pair", "show_key_pair", "delete_key_pair", "list_networks", "show_network"),
)
_ONE_GROUP = ("show_group", "update_group", "delete_group")
_LISTS = (
    *("list_instances", "list_migrations", "list_volumes", "list_snapshots"),
    *("search_instances", "search_volumes"),
)
#: By namespace and method. All other methods of the namespace ``operator`` are the administrator's.
CHECKS: Mapping[tuple[str, str], _Check] = {
    ("compute_task", "create"): _own_build,
    ("compute_task", "terminate_instances"): _all_own_unlocked,
    **{("operator", name): _anything for name in _OPEN},
    **{("operator", name): _own_instance for name in _ONE_INSTANCE},
    **{("operator", name): _own_unlocked_instance for name in _CHANGES_OF_INSTANCE},
    **{("operator", name): _own_group for name in _ONE_GROUP},
    **{("operator", name): _own_list for name in _LISTS},
    **{("operator", name): _own_project for name in ("show_quota", "list_queue")},
    **{("operator", name): _own_of_list for name in ("newest_faults", "list_attachments")},
    **{("operator", name): _own_guest_and_volume for name in ("attach_volume", "detach_volume")},
    ("operator", "create_volumes"): _own_origin,
    **{("operator", name): _own_storage("Volume", "name") for name in _ONE_VOLUME},
    ("operator", "create_snapshot"): _own_storage("Volume", "volume"),
    **{("operator", name): _own_storage("Snapshot", "name") for name in _ONE_SNAPSHOT},
}


def _offered_build(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    request = _mapping(arguments.get("request"))
    return {**arguments, "request": offers.of_build(connection, project, request)} if request else arguments


def _offered_volumes(connection: Connection, project: str, arguments: Arguments) -> Arguments:
    request = _mapping(arguments.get("request"))
    return {**arguments, "request": offers.of_volumes(connection, project, request)} if request else arguments


def _offered_flavor(_connection: Connection, _project: str, arguments: Arguments) -> Arguments:
    offers.require_named_flavor(arguments.get("flavor"))
    return arguments


#: What callers choose from what the administrator offers, unless ``fleet-api`` has granted them more.
OFFERS: Mapping[tuple[str, str], _Check] = {
    ("compute_task", "create"): _offered_build,
    ("operator", "create_volumes"): _offered_volumes,
    ("operator", "resize_instance"): _offered_flavor,
}


#: Their answers to an administrator have ids of hosts, which ``fleet-api`` shows.
_WITH_HOST_IDS = (("operator", "list_instances"), ("operator", "show_instance"))


class Tenancy:
    """Implements :class:`fleet.rpc.trust.admission.Guard`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._host_key: str | None = None

    def admit(self, context: Mapping[str, object], message: JSONObject) -> JSONObject:
        """Return the message that the method receives.

        :raises errors.NotTrusted: the method is the administrator's; errors.NotFound: errors.Conflict:
        """
        namespace, method = message.get("namespace"), str(message.get("method"))
        check = CHECKS.get((namespace or "", method))
        if context.get("is_admin", True) or (check is None and namespace != "operator"):
            return message
        project = context.get("project_id")
        if check is None or not project or not isinstance(project, str):
            raise errors.NotTrusted(reason=f"{method[:40]} is for the administrator, the caller acts for a project")
        asked = message.get("args", {})
        offer = _anything if offers.may_choose_freely(context.get("roles")) else OFFERS.get((namespace or "", method))

        def admitted(connection: Connection) -> Arguments:
            return check(connection, project, (offer or _anything)(connection, project, asked))

        return {**message, "args": dict(self._database.read(admitted))}

    def release(self, context: Mapping[str, object], message: JSONMapping, answer: object) -> object:
        """Return the answer that the caller receives: a project does not see names and sizes of hosts."""
        method = (message.get("namespace") or "", str(message.get("method")))
        if method not in CHECKS:
            return answer
        if not context.get("is_admin", True):
            return redaction.answer_of(method[1], answer, str(context.get("project_id")), self._key())
        if method in _WITH_HOST_IDS and not message.get("args", {}).get("brief"):
            return redaction.with_host_ids(answer, self._key())
        return answer

    def _key(self) -> str:
        """The secret of the ledger for ids of hosts. It never changes."""
        if self._host_key is None:
            self._host_key = self._database.write(identity.host_key)
        return self._host_key

    def refuse(self, context: Mapping[str, object], refusal: errors.FleetError) -> errors.FleetError:
        """Return the error that the caller receives: a project reads no names of hosts in it."""
        return refusal if context.get("is_admin", True) else refusal.for_projects()


def _require_own(named: object, project: str) -> None:
    """:raises errors.NotTrusted:"""
    if named not in (None, project):
        raise errors.NotTrusted(reason=f"the caller acts for project {project} and asks for another one")


def _by_uuid(arguments: Arguments, argument: str, uuid_of: Callable[[str], str]) -> Arguments:
    """Return the arguments with a uuid in place of a name, so that a rename cannot lead the method to another object."""
    named = arguments.get(argument)
    return {**arguments, argument: uuid_of(named)} if _is_name(named) else arguments


def _is_name(value: object) -> TypeGuard[str]:
    """Return True if the value is a name; the method refuses any other one and names the field."""
    return _is(fields.Name, value)


def _is(kind: Any, value: object) -> bool:
    try:
        fields.parse(kind, value)
        return True
    except errors.InvalidInput:
        return False


def _texts(value: object) -> list[str]:
    """Return the names in an argument that is not checked yet. The method refuses values that are no names."""
    found: Iterable[object] = value if isinstance(value, list) else (value,)
    return [each for each in found if isinstance(each, str) and each]


def _mapping(value: object) -> JSONMapping:
    return value if isinstance(value, dict) else {}
