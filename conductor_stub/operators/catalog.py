# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of images and aggregates, namespace ``operator``.

:mod:`fleet.rpc.clients.operator.catalog` calls it.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

from oslo_utils import uuidutils

from conductor_stub.operators.announcements import Announcements
from conductor_stub.steps.acts import Acts
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import images
from fleet.db.engine.database import Database
from fleet.db.hosts import aggregates
from fleet.db.upkeep import removal
from fleet.json_codec import JSONObject
from fleet.objects import Aggregate, ImageRecord, fields, uuid_like
from fleet.objects.answers.catalog import ImageView
from fleet.objects.answers.hosts import AggregateView
from fleet.rpc.endpoint import endpoint, served


class CatalogManager:
    """A ``name`` is a name or a uuid. Images in use are removed; aggregates with hosts are not: errors.Conflict."""

    target = served("conductor", "operator")

    def __init__(self, database: Database, announcements: Announcements, clock: Clock = utcnow) -> None:
        self._database = database
        self._announcements = announcements
        self._acts = Acts(database, clock)
        self._clock = clock

    # Images

    @endpoint
    def list_images(self, context: RequestContext) -> list[ImageView]:
        return [image.to_wire() for image in self._database.read(images.list_all)]

    @endpoint
    def create_image(self, context: RequestContext, image: JSONObject) -> ImageView:
        """:raises errors.Conflict: the name is taken; errors.InvalidInput:"""
        fields.parse(uuid_like.GivenName, image.get("name"), "image.name")
        wanted = dataclasses.replace(ImageRecord.from_wire(image), uuid=uuidutils.generate_uuid())
        fields.require_small(wanted.properties, "image.properties")
        shown = functools.partial(images.by_uuid, uuid=wanted.uuid)
        written = self._acts.write(context, "image.create", wanted.name, shown, images.create, wanted, self._clock())
        return written.to_wire()

    @endpoint
    def show_image(self, context: RequestContext, name: fields.Name) -> ImageView:
        return self._database.read(images.find, name).to_wire()

    @endpoint
    def delete_image(self, context: RequestContext, name: fields.Name) -> None:
        """Delete the record. Instances keep the image with which they were built."""
        found = self._database.read(images.find, name)
        shown = functools.partial(images.by_uuid, uuid=found.uuid)
        self._acts.write(context, "image.delete", found.name, shown, images.remove, found.uuid)

    # Aggregates

    @endpoint
    def list_aggregates(self, context: RequestContext) -> list[AggregateView]:
        return [aggregate.to_wire() for aggregate in self._database.read(aggregates.list_all)]

    @endpoint
    def create_aggregate(
        self, context: RequestContext, name: uuid_like.GivenName, metadata: fields.Texts | None = None
    ) -> AggregateView:
        uuid = uuidutils.generate_uuid()
        shown = functools.partial(aggregates.find, name=uuid)
        asked = (uuid, name, metadata or {}, self._clock())
        self._acts.write(context, "aggregate.create", name, shown, aggregates.create, *asked)
        return self._announcements.aggregate_changed(context, self._database.read(aggregates.find, uuid))

    @endpoint
    def show_aggregate(self, context: RequestContext, name: fields.Name) -> AggregateView:
        return self._database.read(aggregates.find, name).to_wire()

    @endpoint
    def rename_aggregate(
        self, context: RequestContext, name: fields.Name, new_name: uuid_like.GivenName
    ) -> AggregateView:
        return self._change(context, "aggregate.rename", name, aggregates.rename, new_name, self._clock())

    @endpoint
    def add_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> AggregateView:
        return self._change(context, "aggregate.add_host", name, aggregates.add_host, host)

    @endpoint
    def remove_aggregate_host(self, context: RequestContext, name: fields.Name, host: fields.Name) -> AggregateView:
        return self._change(context, "aggregate.remove_host", name, aggregates.remove_host, host)

    @endpoint
    def set_aggregate_metadata(
        self, context: RequestContext, name: fields.Name, metadata: dict[fields.Name, fields.Text | None]
    ) -> AggregateView:
        return self._change(context, "aggregate.set_metadata", name, aggregates.set_metadata, metadata)

    @endpoint
    def delete_aggregate(self, context: RequestContext, name: fields.Name) -> None:
        found = self._database.read(aggregates.find, name)
        shown = functools.partial(aggregates.find, name=str(found.uuid))
        self._acts.write(context, "aggregate.delete", found.name, shown, removal.aggregate, found.id, self._clock())
        self._announcements.aggregate_deleted(context, found)

    def _change(
        self, context: RequestContext, act: str, name: str, work: Callable[..., Aggregate], *args: object
    ) -> AggregateView:
        """Change an aggregate, and tell the schedulers. :param work: its first argument is the uuid"""
        found = self._database.read(aggregates.find, name)
        shown = functools.partial(aggregates.find, name=str(found.uuid))
        changed = self._acts.write(context, act, found.name, shown, work, str(found.uuid), *args)
        return self._announcements.aggregate_changed(context, changed)
