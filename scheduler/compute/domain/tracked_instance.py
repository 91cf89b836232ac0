# SPDX-License-Identifier: Apache-2.0
"""An instance on a host, as far as filters and weighers may read it. The cache makes it from a row of the feed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from fleet import states
from fleet.objects import RequestSpec
from fleet.objects.feed_rows import ShownInstance

#: States in which an instance needs no host any more.
_OVER = (states.ERROR, states.DELETED, states.SHELVED_OFFLOADED)


@dataclasses.dataclass(frozen=True, slots=True)
class TrackedInstance:
    """An entry of the instance index (nova: the values of ``host_state.instances``)."""

    uuid: str
    host: str
    node: str | None = None
    vm_state: str | None = None
    task_state: str | None = None
    instance_type_id: int | None = None
    project_id: str | None = None
    #: Properties of the image that it was made from; read only if a weigher uses them.
    image_properties: frozenset[tuple[str, str]] = frozenset()

    @property
    def is_only_booked(self) -> bool:
        """True if the database has not shown it yet."""
        return self.vm_state is None

    def is_of_other_type(self, instance_type_id: int | None) -> bool:
        """Return True if it is of another flavor.

        The flavor of what a scheduler of an earlier release has booked is not known: it is no reason to refuse a host.
        """
        is_unknown = self.instance_type_id is None and self.is_only_booked
        return self.instance_type_id != instance_type_id and not is_unknown

    def completed_by(self, other: TrackedInstance) -> TrackedInstance:
        """Return this entry with the values that ``other`` has."""
        known = {field.name: getattr(other, field.name) for field in dataclasses.fields(other)}
        return dataclasses.replace(self, **{name: value for name, value in known.items() if value})


def picked(uuid: str, host: str, node: str | None, request: RequestSpec) -> TrackedInstance:
    """Return the entry of a new pick."""
    return TrackedInstance(uuid, host, node, instance_type_id=request.flavor.id, project_id=request.instance.project_id)


def read_placed(row: ShownInstance) -> TrackedInstance:
    """Return the entry of a row of ``instances`` that has a host."""
    assert row.host is not None, "the cache places only what is on a host"
    return TrackedInstance(
        row.uuid,
        row.host,
        row.node,
        row.vm_state,
        row.task_state,
        row.instance_type_id,
        row.project_id,
        image_pairs(getattr(row, "image_properties", None)),
    )


def is_gone(row: ShownInstance) -> bool:
    """Return True if the instance is deleted."""
    return bool(row.deleted) or row.vm_state == states.DELETED


def is_over(row: ShownInstance) -> bool:
    """Return True if the instance needs no host any more."""
    return bool(row.deleted) or row.vm_state in _OVER


def has_moved(row: ShownInstance) -> bool:
    """Return True if a move has claimed its destination, or is over."""
    claimed = row.task_state in states.CLAIMED_MOVES
    settled = row.task_state is None or row.task_state in states.POWER_TASKS
    return claimed or (row.vm_state in (states.ACTIVE, *states.AT_REST) and settled)


def image_pairs(properties: Mapping[str, object] | None) -> frozenset[tuple[str, str]]:
    """Return an image's properties in a form that can be compared, without those that have no value."""
    return frozenset((name, str(value)) for name, value in (properties or {}).items() if value is not None)
