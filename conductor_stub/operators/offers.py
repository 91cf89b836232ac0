# SPDX-License-Identifier: Apache-2.0
"""The flavors, images and hints that a project may choose for a build: a flavor by name, an image by id, and hints about
its own instances.

Sizes, extra specs and image properties decide which hosts take a build, some of them reserved ones. So the administrator
offers them, and a project chooses. ``fleet-api`` may grant more to a caller whose roles a policy rule names
(``fleet.rpc.trust.grants``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from fleet import errors
from fleet.db.catalog import images
from fleet.db.engine.database import Connection
from fleet.db.instances import instances
from fleet.db.volumes import volumes
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Image
from fleet.rpc.trust import grants

Request = JSONMapping
#: Hints that choose hosts by what a project does not see: any column of hosts, and their addresses.
_HOSTS = ("query", "build_near_host_ip", "cidr")
#: Hints that name instances or volumes.
_NEIGHBOURS = ("same_host", "different_host")
#: Hint of a volume that names an instance.
_LOCAL = "local_to_instance"
#: Stands for what the project does not have, in a hint that is to find nothing.
_NOTHING = "00000000-0000-0000-0000-000000000000"


def require_named_flavor(flavor: object) -> None:
    """:raises errors.NotTrusted: the caller gives sizes or extra specs"""
    if isinstance(flavor, dict):
        raise errors.NotTrusted(reason="only the administrator gives the sizes of a build; name a flavor")


def of_build(connection: Connection, project: str, request: Request) -> Request:
    """The request with the image as it is recorded, and no instances of others in its hints.

    :raises errors.NotTrusted: the caller chooses what the administrator does not offer; errors.NotFound: no such image
    """
    require_named_flavor(request.get("flavor"))
    if request.get("ignore_hosts"):
        raise errors.NotTrusted(reason="only the administrator names hosts that a build leaves out")
    if isinstance(request.get("image"), dict) and request["image"]:
        request = {**request, "image": _recorded(connection, request["image"])}
    return with_own_neighbours(request, lambda uuids: instances.of_project(connection, uuids, project))


def of_volumes(connection: Connection, project: str, request: Request) -> Request:
    """Check as :func:`of_build` does, for new volumes: their hints name volumes, and one hint an instance."""
    request = with_own_neighbours(request, lambda uuids: volumes.of_project(connection, uuids, project))
    hints = request.get("scheduler_hints")
    local = hints.get(_LOCAL) if isinstance(hints, dict) else None
    if isinstance(hints, dict) and isinstance(local, str) and not instances.of_project(connection, [local], project):
        return {**request, "scheduler_hints": {**hints, _LOCAL: _NOTHING}}
    return request


def with_own_neighbours(request: Request, own: Callable[[list[str]], set[str]]) -> Request:
    """A uuid that is not of the project is answered like one that nothing has.

    :param own: returns those of some uuids that are of the project
    :raises errors.NotTrusted: one of the hints that choose hosts
    """
    hints = request.get("scheduler_hints")
    if not isinstance(hints, dict) or not hints:
        return request
    for name in _HOSTS:
        if hints.get(name):
            raise errors.NotTrusted(reason=f"only the administrator asks for hosts with the hint {name}")
    named = {name: _listed(hints[name]) for name in _NEIGHBOURS if hints.get(name)}
    if not named:
        return request
    known = own([each for uuids in named.values() for each in uuids])
    shown = {name: [each if each in known else _NOTHING for each in uuids] for name, uuids in named.items()}
    return {**request, "scheduler_hints": {**hints, **shown}}


def _recorded(connection: Connection, given: Mapping[str, object]) -> JSONObject:
    """:raises errors.InvalidInput: errors.NotTrusted: errors.NotFound:"""
    wanted = Image.from_wire(given, "request.image")
    if not wanted.id:
        if wanted == Image():
            return dict(given)
        raise errors.NotTrusted(reason="only the administrator gives the properties of an image; name one by its id")
    known = images.by_uuid(connection, wanted.id).to_image()
    others = [name for name in given if name in vars(known) and getattr(wanted, name) != getattr(known, name)]
    if others:
        raise errors.NotTrusted(reason=f"only the administrator changes {others[0]} of image {known.name}")
    return known.to_wire()


def _listed(value: object) -> list[str]:
    """The texts of a hint; another value is left out, since it names nothing."""
    found = value if isinstance(value, list) else [value]
    return [each for each in found if isinstance(each, str)] or [_NOTHING]


def require_no_places(fields: Collection[str]) -> None:
    """:raises errors.NotTrusted: a project does not know where its objects are"""
    for name in ("host", "node", "pool"):
        if name in fields:
            raise errors.NotTrusted(reason=f"only the administrator lists by {name}")


def may_choose_freely(roles: object) -> bool:
    """Return True if ``fleet-api`` has granted more than the offers to the caller."""
    return isinstance(roles, list) and grants.FREE_CHOICE in roles
