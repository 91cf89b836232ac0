# SPDX-License-Identifier: Apache-2.0
"""The RPC surface for volumes: topic ``volume_scheduler``, with the shapes of cinder's scheduler.

Called by :mod:`scheduler.main` and :mod:`scheduler.volumes.service`. The scheduler decides and books. Its caller, a
conductor, claims the space and orders the agent; cinder's scheduler does both itself, and answers nothing. So each
method that cinder casts returns the pool here, as ``select_backend`` does.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Mapping
from typing import Literal

from oslo_log import log as logging
from oslo_utils import strutils, uuidutils

from fleet import errors
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.json_codec import JSONMapping, JSONObject
from fleet.objects import Selection, VolumeType, fields, location
from fleet.rpc.endpoint import endpoint, require_size, served
from scheduler.engine.decision import StateAge
from scheduler.engine.hosts.candidates import Candidates
from scheduler.volumes.domain.pool_state import name_of
from scheduler.volumes.domain.request import EXTEND, MIGRATE, VolumeRequest
from scheduler.volumes.drivers.driver import Scheduler
from scheduler.volumes.filters.instance_locality import HINT
from scheduler.why.decision_log import Words, logged
from scheduler.why.explain import Words as Explained
from scheduler.why.explain import explanation

LOG = logging.getLogger(__name__)
TOPIC = "volume_scheduler"
#: ``request_spec['migration_policy']`` of a retype that may move its volume.
ON_DEMAND = "on-demand"
Answer = list[JSONObject]


class VolumeSchedulerManager:
    """Endpoint of topic ``volume_scheduler``.

    :param locate: uuid of an instance → its host, or None
    :param find_type: name of a volume type → the type. :raises errors.NotFound:
    """

    target = served(TOPIC)
    #: Calls that another scheduler may answer if this one is killed: what they book is booked here only.
    REPEATABLE = frozenset({"select_backend", "create_volume", "migrate_volume_to_host", "retype", "extend_volume"})

    def __init__(
        self,
        driver: Scheduler,
        locate: Callable[[str], str | None],
        find_type: Callable[[str], VolumeType],
        clock: Clock = utcnow,
    ) -> None:
        self._driver = driver
        self._locate = locate
        self._find_type = find_type
        self._clock = clock

    @endpoint
    def select_backend(self, context: RequestContext, request_spec: object, filter_properties: object = None) -> Answer:
        """Return a pool for a volume, or for each of ``volume_ids``, and book them.

        :raises errors.InvalidInput: naming the field
        :raises errors.NoValidHost: with the filters' counts
        """
        return self._select(self._request(context, request_spec, filter_properties), context)

    @endpoint
    def create_volume(
        self,
        context: RequestContext,
        request_spec: object = None,
        filter_properties: object = None,
        volume: object = None,
        volume_id: object = None,
        snapshot_id: object = None,
        image_id: object = None,
    ) -> Answer:
        """Return a pool for a new volume."""
        sources = {"snapshot_id": snapshot_id, "image_id": image_id}
        spec = _completed(request_spec, volume, volume_id, sources)
        request = self._request(context, {**spec, "operation": "create_volume"}, filter_properties)
        return self._select(request, context)

    @endpoint
    def migrate_volume_to_host(
        self,
        context: RequestContext,
        host: fields.Name,
        request_spec: object = None,
        filter_properties: object = None,
        volume: object = None,
        volume_id: object = None,
        force_host_copy: bool = False,
    ) -> Answer:
        """Return the pool that a volume may move to: ``host``, or the best pool of it."""
        spec = _completed(request_spec, volume, volume_id)
        restricted = {**spec, "operation": MIGRATE, "resource_backend": host}
        return self._select(self._request(context, restricted, filter_properties), context)

    @endpoint
    def retype(
        self,
        context: RequestContext,
        request_spec: object = None,
        filter_properties: object = None,
        volume: object = None,
    ) -> Answer:
        """Return the pool for a volume with another type: its own, or, if ``migration_policy`` allows, the best one."""
        spec = _completed(request_spec, volume)
        request = self._request(context, {**spec, "operation": "retype_volume"}, filter_properties)
        if not spec.get("volume_type"):
            raise errors.InvalidInput(field="request_spec.volume_type", reason="is missing: the type to change to")
        current = _current(request)
        # A volume without a pool may be on any of its backend.
        stays = dataclasses.replace(request, exists_on=current, backend=current)
        made = self._driver.look(context, stays)
        if made.complete:
            return [selection.to_wire() for selection in made.selections()]
        if spec.get("migration_policy") != ON_DEMAND:
            reason = f"Volume {request.volume_id or '-'} cannot stay on {current} with its new type: {made.reason} "
            reason += f"Its migration_policy does not allow a move; {ON_DEMAND!r} does."
            raise errors.NoValidHost(reason=reason, details=made.to_wire())
        return self._select(request, context)

    @endpoint
    def extend_volume(
        self,
        context: RequestContext,
        new_size: fields.Positive,
        request_spec: object = None,
        filter_properties: object = None,
        volume: object = None,
        reservations: object = None,
    ) -> Answer:
        """Return the pool of a volume if it has room for what the volume grows by, and book that."""
        spec = {**_completed(request_spec, volume), "operation": EXTEND}
        grown = {**_mapping(filter_properties, "filter_properties"), "new_size": new_size}
        request = self._request(context, spec, grown)
        return self._select(dataclasses.replace(request, backend=_current(request)), context)

    @endpoint
    def manage_existing(
        self,
        context: RequestContext,
        request_spec: object = None,
        filter_properties: object = None,
        volume: object = None,
    ) -> Answer:
        """Return the pool of a volume that is to be managed, if its type may be there. Its space counts already."""
        spec = _completed(request_spec, volume)
        properties = {**_mapping(spec.get("volume_properties"), "request_spec.volume_properties"), "size": 0}
        request = self._request(context, {**spec, "volume_properties": properties}, filter_properties)
        return self._select(dataclasses.replace(request, backend=_current(request)), context)

    @endpoint
    def validate_host_capacity(
        self, context: RequestContext, backend: fields.Name, request_spec: object, filter_properties: object = None
    ) -> bool:
        """Return whether a backend or pool takes a volume. If so, the space is booked."""
        spec = _completed(request_spec)
        try:
            self._select(self._request(context, {**spec, "resource_backend": backend}, filter_properties), context)
        except errors.NoValidHost:
            return False
        return True

    @endpoint
    def explain(
        self,
        context: RequestContext,
        request_spec: object,
        filter_properties: object = None,
        best: fields.InstanceCount = 10,
    ) -> JSONObject:
        """Return the answer that ``select_backend`` would give, with the reasons. Nothing is booked."""
        made = self._driver.look(context, self._request(context, request_spec, filter_properties), best)
        return explanation(made, Explained("volume", "pool", name_of))

    @endpoint
    def capacity(
        self,
        context: RequestContext,
        request_spec: object,
        filter_properties: object = None,
        group_by: Literal["zone"] | None = None,
    ) -> JSONObject:
        """Return how many more volumes of the request's size and type fit."""
        request = self._request(context, request_spec, filter_properties)
        return self._driver.capacity(context, request, group_by is not None)

    @endpoint
    def get_pools(self, context: RequestContext, filters: object = None) -> list[JSONObject]:
        """Return the pools that are reported, each with ``name`` and ``capabilities``.

        :param filters: ``name``; ``volume_type``, a name: then pools that this type may be on; others are capabilities
        """
        wanted = dict(_mapping(filters, "filters"))
        name, type_ = wanted.pop("name", None), wanted.pop("volume_type", None)
        allowed = None if type_ is None else self._passing(context, self._find_type(fields.parse(fields.Name, type_)))
        self._driver.host_manager.refresh()

        def work(pools: Candidates, state: StateAge) -> list[JSONObject]:
            rows = pools.rows[pools.present()].tolist()
            return [
                {"name": name_of(pools.key(row)), "capabilities": dict(pools.attribute(row, "capabilities"))}
                for row in rows
            ]

        return [
            pool
            for pool in self._driver.host_manager.consider(work)
            if (name is None or pool["name"] == name)
            and (allowed is None or pool["name"] in allowed)
            and all(_equals(pool["capabilities"].get(key), value) for key, value in wanted.items())
        ]

    # Casts of agents. What they report comes through a conductor and the database; a cast says that there is news.

    @endpoint
    def update_service_capabilities(
        self, context: RequestContext, service_name: object = None, host: object = None, capabilities: object = None
    ) -> None:
        self._look_for_news(service_name)

    @endpoint
    def notify_service_capabilities(
        self, context: RequestContext, service_name: object = None, capabilities: object = None, backend: object = None
    ) -> None:
        self._look_for_news(service_name)

    def _look_for_news(self, service_name: object) -> None:
        if service_name != "volume":
            return
        try:
            self._driver.host_manager.refresh()
        except errors.StaleState as lost:
            LOG.warning("%s", lost.message)

    # ---------------------------------------------------------------------------------------------------------------

    def _request(self, context: RequestContext, request_spec: object, filter_properties: object) -> VolumeRequest:
        require_size([request_spec, filter_properties], "request_spec")
        request = VolumeRequest.from_wire(request_spec, filter_properties)
        return dataclasses.replace(
            request,
            # Under this uuid the pick is booked.
            volume_id=next(iter(request.instance_uuids), None) or uuidutils.generate_uuid(),
            local_host=self._local_host(request),
            all_projects=bool(context.is_admin),
        )

    def _local_host(self, request: VolumeRequest) -> str | None:
        hint, field = request.scheduler_hints.get(HINT), f"filter_properties.scheduler_hints.{HINT}"
        if not hint:
            return None
        if not uuidutils.is_uuid_like(hint):
            raise errors.InvalidInput(field=field, reason=f"must be the uuid of an instance, got {hint!r:.60}")
        instance = str(uuid.UUID(hint))
        host = self._locate(instance)
        if host is None:
            raise errors.InvalidInput(field=field, reason=f"names no instance on a host, got {instance}")
        return host

    def _select(self, request: VolumeRequest, context: RequestContext) -> Answer:
        def select() -> list[Selection]:
            self._require_caller(request)
            if request.num_instances > 1:
                return self._driver.select_backends(context, request)
            return [self._driver.select_backend(context, request)]

        several = f"{request.num_instances} volumes, first" if request.volume_ids else "volume"
        words = Words(f"{several} {request.volume_id} of {request.properties.size} GiB", "pool")
        return [selection.to_wire() for selection in logged(words, select)]

    def _require_caller(self, request: VolumeRequest) -> None:
        """:raises errors.RequestExpired: the caller waits no longer, so nothing must be booked"""
        late_s = (self._clock() - request.begin_by).total_seconds() if request.begin_by else 0
        if late_s > 0:
            raise errors.RequestExpired(late_s=f"{late_s:.1f}")

    def _passing(self, context: RequestContext, type_: VolumeType) -> set[str]:
        """Return the names of the pools that pass all filters for a volume of size 0 of this type."""
        spec = {"volume_properties": {"size": 0}, "volume_type": type_.to_wire()}
        request = self._request(context, spec, None)
        scores = self._driver.look(context, request, best=fields.INT32_MAX).scores
        return {f"{each['host']}#{each['nodename']}" for each in scores}


def _completed(
    request_spec: object, volume: object = None, volume_id: object = None, sources: JSONMapping | None = None
) -> JSONObject:
    """Return the request spec; made from the volume's record if there is none, as for callers of older releases."""
    if request_spec is not None:
        return dict(_mapping(request_spec, "request_spec"))
    known = _mapping(volume, "volume")
    if not known:
        raise errors.InvalidInput(field="request_spec", reason="is missing, and so is volume")
    properties = {**known, "size": known.get("size", known.get("size_gb"))}
    return {
        **(sources or {}),
        "volume_id": volume_id or known.get("id"),
        "volume_properties": properties,
        "volume_type": known.get("volume_type"),
    }


def _mapping(value: object, field: str) -> JSONMapping:
    if value is not None and not isinstance(value, Mapping):
        raise errors.InvalidInput(field=field, reason="must be an object")
    return value or {}


def _current(request: VolumeRequest) -> str:
    """Return where the volume is. :raises errors.InvalidInput: the request does not have it"""
    host = request.properties.host
    if not host or not location.extract_host(host):
        raise errors.InvalidInput(field="request_spec.volume_properties.host", reason="is missing: where the volume is")
    return host


def _equals(capability: object, wanted: object) -> bool:
    """Compare a capability with a value that may have come as text."""
    if capability is None or type(capability) is type(wanted):
        return bool(capability == wanted)
    if isinstance(capability, bool):
        return capability == strutils.bool_from_string(wanted)
    return str(capability) == str(wanted)
