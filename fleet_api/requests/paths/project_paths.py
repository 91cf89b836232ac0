# SPDX-License-Identifier: Apache-2.0
"""Paths with the project in them, ``/v2.1/PROJECT/servers``: old catalogs of keystone and old clients have them.

Called by :mod:`fleet_api.application`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

import falcon

from fleet.context import RequestContext

#: Roots below which a project may follow.
ROOTS = ("/v2.1", "/v3")
#: Ids of projects as keystone makes them. Without authentication a catalog may name any.
_ANY_PROJECT = re.compile("[0-9a-f]{32}")


class ProjectPaths:
    """Middleware, after the sender is known: removes the sender's project from the path.

    Another project stays in the path, so such a request finds nothing. A project that is called like a resource, such as
    ``servers``, stays as well: it has the path without a project.

    :param paths: of all routes
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._resources = {root: _first_names(paths, root) for root in ROOTS}

    def process_request(self, request: falcon.Request, _response: falcon.Response) -> None:
        root, _slash, below = request.path.removeprefix("/").partition("/")
        project, slash, rest = below.partition("/")
        resources = self._resources.get(f"/{root}")
        if resources is None or not project or project in resources:
            return
        caller: RequestContext = request.context.caller
        if project == caller.project_id or (request.context.is_open and _ANY_PROJECT.fullmatch(project)):
            request.path = f"/{root}{slash}{rest}"
            # Others read here whether the path ends with a slash.
            request.env["PATH_INFO"] = request.env["PATH_INFO"].replace(f"/{root}/{project}", f"/{root}", 1)


def _first_names(paths: Iterable[str], root: str) -> Collection[str]:
    return frozenset(path.removeprefix(f"{root}/").split("/")[0] for path in paths if path.startswith(f"{root}/"))
