# SPDX-License-Identifier: Apache-2.0
"""Metadata of volumes and of snapshots: the same paths below each of them.

Called by :mod:`fleet_api.block_storage.snapshots` and :mod:`fleet_api.block_storage.volumes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import falcon

from fleet import errors
from fleet.json_codec import JSONMapping
from fleet.objects.changes import NewMetadata, OneMetadata
from fleet_api.requests import answers, bodies, guard
from fleet_api.requests.faults import Fault

_ALL, _ONE = answers.Answer({"metadata": dict[str, str]}), answers.Answer({"meta": dict[str, str]})


class Metadata:
    """:param show: returns an object that the sender may see, by the parameters of the path
    :param change: changes it, and returns it
    """

    def __init__(
        self,
        show: Callable[[falcon.Request, Mapping[str, str]], JSONMapping],
        change: Callable[[falcon.Request, Mapping[str, str], JSONMapping], JSONMapping],
    ) -> None:
        self._show = show
        self._change = change

    @guard.by("volume:get")
    @answers.gives(_ALL)
    def on_get(self, request: falcon.Request, response: falcon.Response, **path: str) -> None:
        response.media = {"metadata": self._show(request, path)["metadata"]}

    @guard.by("volume:change")
    @answers.gives(_ALL)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_post(self, request: falcon.Request, response: falcon.Response, **path: str) -> None:
        """Keys that are not named stay."""
        self._set(request, response, path, replace=False)

    @guard.by("volume:change")
    @answers.gives(_ALL)
    @bodies.takes(bodies.Body({"metadata": NewMetadata}))
    def on_put(self, request: falcon.Request, response: falcon.Response, **path: str) -> None:
        """Keys that are not named go."""
        self._set(request, response, path, replace=True)

    @guard.by("volume:get")
    @answers.gives(_ONE)
    def on_get_key(self, request: falcon.Request, response: falcon.Response, key: str, **path: str) -> None:
        response.media = {"meta": {key: self._value(request, path, key)}}

    @guard.by("volume:change")
    @answers.gives(_ONE)
    @bodies.takes(bodies.Body({"meta": OneMetadata}))
    def on_put_key(self, request: falcon.Request, response: falcon.Response, key: str, **path: str) -> None:
        self._show(request, path)
        given = bodies.part(request, "meta", OneMetadata)
        if key not in given:
            raise errors.InvalidInput(field="meta", reason="must have the key that the path names")
        changed = self._change(request, path, {"metadata": given})
        response.media = {"meta": {key: changed["metadata"][key]}}

    @guard.by("volume:change")
    @answers.gives(answers.NOTHING)
    def on_delete_key(self, request: falcon.Request, response: falcon.Response, key: str, **path: str) -> None:
        self._value(request, path, key)
        self._change(request, path, {"metadata": {key: None}})

    def _value(self, request: falcon.Request, path: Mapping[str, str], key: str) -> str:
        found: Mapping[str, str] = self._show(request, path)["metadata"]
        if key not in found:
            raise Fault(404, f"There is no metadata item {key[:100]}.")
        return found[key]

    def _set(self, request: falcon.Request, response: falcon.Response, path: Mapping[str, str], replace: bool) -> None:
        self._show(request, path)
        given = bodies.part(request, "metadata", NewMetadata)
        changed = self._change(request, path, {"metadata": given, "replace_metadata": replace})
        response.media = {"metadata": changed["metadata"]}
