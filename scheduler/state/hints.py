# SPDX-License-Identifier: Apache-2.0
"""Parse the fanout casts: aggregates, instances and bookings as their senders know them.

Called by :mod:`scheduler.compute.manager`; :mod:`scheduler.state.host_cache` applies them. A cast may be lost or late, so it
is a hint: it counts at once, until the change feed or a full comparison corrects it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Annotated

import pydantic

from fleet import errors
from fleet.objects import Aggregate, fields
from scheduler.engine.hosts.consumption import Consumption
from scheduler.state.booking import Booking
from scheduler.state.services import OF_SERVICES

#: Columns hold such numbers exactly, and many of them add up to a finite number.
_Amount = Annotated[float, pydantic.Field(ge=-(2**53), le=2**53, allow_inf_nan=False)]


@dataclasses.dataclass(frozen=True)
class AggregateHint:
    """An aggregate in the feed's form. ``generation`` is that of the database when it was read, if the sender says."""

    id: int
    name: str = ""
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = dataclasses.field(default_factory=dict)
    deleted: bool = False
    generation: int | None = None
    uuid: str | None = None


@dataclasses.dataclass(frozen=True)
class _Named:
    id: int


@dataclasses.dataclass(frozen=True)
class _InstanceInfo:
    uuid: fields.Uuid
    host: fields.Name | None = None
    node: fields.Text | None = None
    vm_state: fields.Text | None = None
    task_state: fields.Text | None = None
    instance_type_id: int | None = None
    project_id: fields.Text | None = None


@dataclasses.dataclass(frozen=True)
class _Booking:
    instance_uuid: fields.Uuid
    host: fields.Name
    nodename: fields.Name
    amounts: dict[fields.Name, _Amount]
    came_from: fields.Name | None = None
    instance_type_id: int | None = None
    project_id: fields.Text | None = None


def aggregates(sent: object) -> list[AggregateHint]:
    """Parse one aggregate or a list of them. :raises errors.InvalidInput:"""
    return [_aggregate(each, f"aggregates.{number}") for number, each in enumerate(_listed(sent))]


def _aggregate(data: object, field: str) -> AggregateHint:
    if isinstance(data, Mapping) and "metadetails" in data:  # nova's second name for it
        data = {"metadata": data["metadetails"], **data}
    parsed = Aggregate.from_wire(data, field)
    generation = data.get("generation") if isinstance(data, Mapping) else None
    known = generation if isinstance(generation, int) else None
    return AggregateHint(
        parsed.id, parsed.name, tuple(parsed.hosts), parsed.metadata, generation=known, uuid=parsed.uuid
    )


def deleted_aggregate(sent: object) -> AggregateHint:
    """:raises errors.InvalidInput: it has no id"""
    number = sent if isinstance(sent, int) else fields.parse(_Named, sent, "aggregate").id
    return AggregateHint(number, deleted=True)


def instances(host_name: object, sent: object, entry: Callable[..., object]) -> list[object]:
    """Parse one instance or a list of them, all on ``host_name``; if that is None, a list with a ``host`` for each.

    :param entry: makes the entry of the domain's instance index from the fields
    :raises errors.InvalidInput:
    """
    shared = None if host_name is None else host(host_name)
    if shared is None and not isinstance(sent, list):
        # The check of which hosts a sender may speak for reads a list.
        raise errors.InvalidInput(field="instance_info", reason="is not a list, and there is no host_name")
    found = []
    for number, data in enumerate(_listed(sent)):
        info = fields.parse(_InstanceInfo, data, f"instance_info.{number}")
        where = shared or info.host
        if where is None:
            raise errors.InvalidInput(field=f"instance_info.{number}.host", reason="is missing, and so is host_name")
        found.append(entry(**{**dataclasses.asdict(info), "host": where}))
    return found


def bookings(
    sent: object, columns: Mapping[str, type], entry: Callable[..., object], expires_at: float
) -> list[Booking]:
    """Parse bookings of another scheduler. Amounts of columns that are not known here, or that no booking takes from, are
    left out.

    :param entry: makes the entry of the domain's instance index from the fields
    :raises errors.InvalidInput:
    """
    parsed = fields.parse(list[_Booking], _listed(sent), "bookings")
    bookable = {name for name, kind in columns.items() if kind is not bool and name not in OF_SERVICES}
    return [
        Booking(
            each.instance_uuid,
            (each.host, each.nodename),
            Consumption({name: amount for name, amount in each.amounts.items() if name in bookable}),
            expires_at,
            entry(
                uuid=each.instance_uuid,
                host=each.host,
                node=each.nodename,
                instance_type_id=each.instance_type_id,
                project_id=each.project_id,
            ),
            each.came_from,
            told=True,
        )
        for each in parsed
    ]


def host(sent: object) -> str:
    """:raises errors.InvalidInput:"""
    return fields.parse(fields.Name, sent, "host_name")


def uuids(sent: object, field: str) -> list[str]:
    """:raises errors.InvalidInput:"""
    return fields.parse(list[fields.Uuid], _listed(sent), field)


def _listed(sent: object) -> list[object]:
    """:raises errors.InvalidInput: it is neither one nor several"""
    if isinstance(sent, Mapping) and isinstance(sent.get("objects"), list):
        return sent["objects"]
    if isinstance(sent, (Mapping, str)):
        return [sent]
    if isinstance(sent, (list, tuple)):
        return list(sent)
    raise errors.InvalidInput(field="cast", reason="is neither an object nor a list of objects")
