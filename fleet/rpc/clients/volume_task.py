# SPDX-License-Identifier: Apache-2.0
"""Calls of agents to conductors, and between conductors: volumes. Called by :mod:`fleet.rpc.clients`."""

from __future__ import annotations

from fleet import domains, volume_states
from fleet.context import RequestContext
from fleet.json_codec import JSONObject
from fleet.rpc.clients.api import API, Message

_SINCE = "1.9"
#: Statuses that version 1.9 knows; others came with 1.11.
_FIRST = (volume_states.CREATING, volume_states.EXTENDING, volume_states.DELETING)
_SINCE_MANAGED = _SINCE_COPIES = "1.13"
_SINCE_PARTS = "1.25"
_MANAGED = (volume_states.MANAGING, volume_states.UNMANAGING)


class VolumeTaskAPI(API):
    """Advances volumes, and reports pools."""

    topic = "conductor"
    namespace = "volume"

    def place_volume(self, context: RequestContext, volume_uuid: str, attempt: int) -> None:
        said = {"volume_uuid": volume_uuid, "attempt": attempt}
        self._send(context, Message("place_volume", said, version=_SINCE), topic=domains.VOLUME_CONDUCTOR)

    def report_pools(
        self, context: RequestContext, reports: list[JSONObject], pools: dict[str, list[str]]
    ) -> list[JSONObject]:
        """:param pools: by backend, all its pools"""
        return self._ask(context, Message("report_pools", {"reports": reports, "pools": pools}, version=_SINCE))

    def takes_copies(self) -> bool:
        """Return True if :meth:`report_copies` may be used."""
        return self._can_send(_SINCE_COPIES)

    def report_copies(self, context: RequestContext, copies: dict[str, dict[str, int]]) -> None:
        """:param copies: by backend and uuid, how much of each volume is copied, in per cent"""
        said = {"reports": [], "pools": {}, "copies": copies}
        self._ask(context, Message("report_pools", said, version=_SINCE_COPIES))

    def get_host_volumes(
        self,
        context: RequestContext,
        host: str,
        volume_uuids: list[str] | None = None,
        limit: int | None = None,
        marker: str | None = None,
    ) -> list[JSONObject]:
        """Return the volumes of a backend, by uuid.

        :param limit: and ``marker``: at most so many, and only those after this uuid. An older conductor returns all
        """
        said, part = {"host": host, "volume_uuids": volume_uuids}, {"limit": limit, "marker": marker}
        newer = {} if limit is None else part
        asked = Message("get_host_volumes", said, version=_SINCE, newer=newer, newer_version=_SINCE_PARTS)
        return self._ask(context, asked)

    def get_removable_volumes(
        self, context: RequestContext, host: str, volume_uuids: list[str], pool: str
    ) -> list[str]:
        """Return those that the ledger has deleted, or has on another backend and knows to have left data on the pool.

        An older conductor answers about all pools of the backend.
        """
        said, newer = {"host": host, "volume_uuids": volume_uuids}, {"pool": pool}
        asked = Message("get_removable_volumes", said, version=_SINCE, newer=newer, newer_version=_SINCE_PARTS)
        return self._ask(context, asked)

    def volume_done(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, status: str
    ) -> JSONObject:
        said = {"volume_uuid": volume_uuid, "attempt": attempt, "host": host, "status": status}
        return self._ask(context, Message("volume_done", said, version=_since(status)))

    def volume_failed(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, status: str, failure: JSONObject
    ) -> JSONObject:
        said = {"volume_uuid": volume_uuid, "attempt": attempt, "host": host, "status": status, "failure": failure}
        return self._ask(context, Message("volume_failed", said, version=_since(status)))

    def volume_measured(
        self, context: RequestContext, volume_uuid: str, attempt: int, host: str, size_gb: int, stored_gb: int
    ) -> JSONObject:
        """Claim the space of a volume that is being managed. :param stored_gb: what of it lies on the pool already"""
        said = {
            "volume_uuid": volume_uuid,
            "attempt": attempt,
            "host": host,
            "size_gb": size_gb,
            "stored_gb": stored_gb,
        }
        return self._ask(context, Message("volume_measured", said, version=_SINCE_MANAGED))

    def takes_steps(self) -> bool:
        """Return True if :meth:`volume_steps` may be used.

        Not while a conductor may be too old, and not with signed messages: a key may be good for one backend only.
        """
        return self._signer is None and self._can_send("1.12")

    def volume_steps(self, context: RequestContext, steps: list[JSONObject]) -> list[JSONObject]:
        """Call several of :meth:`get_host_volumes` and :meth:`volume_done` in one message
        (:mod:`fleet.rpc.batch_answers`).

        :param steps: ``method``, its arguments, and the request it belongs to (``RequestContext.whose``)
        """
        return self._ask(context, Message("volume_steps", {"steps": steps}, version="1.12"))


def _since(status: str) -> str:
    """The version that introduced reports about this status."""
    if status in _MANAGED:
        return _SINCE_MANAGED
    return _SINCE if status in _FIRST else "1.11"
