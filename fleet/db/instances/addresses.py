# SPDX-License-Identifier: Apache-2.0
"""Claims of addresses: made in the transaction that accepts a build, and released with the instance.

Called by modules of :mod:`conductor_stub.builds` and :mod:`fleet.db.upkeep`. The transaction locks the rows of its
networks, in the order of their uuids: after volumes, before quotas. Builds that are accepted together read the free
addresses once.
"""

from __future__ import annotations

import collections
import ipaddress
from collections.abc import Iterable, Sequence
from typing import cast

import sqlalchemy as sa
from oslo_utils import uuidutils

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.tables import models
from fleet.db.tables.networks import NetworkRow
from fleet.json_codec import JSONList, JSONMapping

NETWORKS = models.networks
ADDRESSES = models.addresses

_OF: sa.BindParameter[str] = sa.bindparam("network", type_=sa.String)
_LOCKED = (
    sa.select(NETWORKS)
    .where(NETWORKS.c.uuid.in_(sa.bindparam("uuids", expanding=True)))
    .order_by(NETWORKS.c.uuid)
    .with_for_update()
)
_TAKEN = (
    sa.select(ADDRESSES.c.number)
    .where(
        ADDRESSES.c.network_uuid == _OF,
        ADDRESSES.c.number.between(sa.bindparam("low", type_=sa.BigInteger), sa.bindparam("high", type_=sa.BigInteger)),
    )
    .order_by(ADDRESSES.c.number)
)
#: Numbers that the first search looks at, beside those that are wanted; each further one looks at more.
_FIRST, _FACTOR = 256, 4

#: Plugs of an instance without addresses, as ``Interface`` has them.
Planned = Sequence[JSONMapping]


class FreeAddresses:
    """Free addresses of locked networks, for all builds that a transaction accepts."""

    def __init__(self, tx: Transaction, planned: Iterable[Planned]) -> None:
        """:param planned: the plugs of each instance"""
        plugs = [plug for each in planned for plug in each]
        wanted = collections.Counter(plug["network"] for plug in plugs if not plug["address"])
        self._by_name = {(plug["network"], _number(plug["address"])) for plug in plugs if plug["address"]}
        uuids = sorted({plug["network"] for plug in plugs})
        rows = cast("Sequence[NetworkRow]", tx.execute(_LOCKED, {"uuids": uuids}).all() if uuids else ())
        self._rows = {row.uuid: row for row in rows}
        self._named = {each for each in self._by_name if not _numbers(tx, each[0], each[1], each[1])}
        self._found: dict[str, list[int]] = {}
        for row in rows:
            kept = {number for uuid, number in self._by_name if uuid == row.uuid}
            self._found[row.uuid] = _search(tx, row, wanted[row.uuid], kept)
        self._free = {uuid: collections.deque(found) for uuid, found in self._found.items()}

    def claim(self, planned: Sequence[Planned]) -> list[JSONList]:
        """Return the plugs of each instance of one build, with addresses. Nothing is written.

        :raises errors.NotFound: a network was deleted; errors.Conflict: an address is taken, or none is free
        """
        made: list[JSONList] = []
        for plugs in planned:
            made.append([])
            for plug in plugs:
                try:
                    number = self._take(plug, sum(len(each) for each in planned))
                except errors.FleetError:
                    self.give_back(made)
                    raise
                uuid = uuidutils.generate_uuid()
                named = {"uuid": uuid, "address": str(ipaddress.IPv4Address(number)), "mac": _mac(uuid)}
                made[-1].append({**plug, **named})
        return made

    def give_back(self, made: Iterable[JSONList]) -> None:
        """The build is refused: those after it may have its addresses."""
        for plug in reversed([plug for plugs in made for plug in plugs]):
            claim = plug["network"], _number(plug["address"])
            if claim in self._by_name:
                self._named.add(claim)
            else:
                self._free[plug["network"]].appendleft(claim[1])

    def go_on(self, tx: Transaction) -> None:
        """Let the next search begin behind the last address that was claimed. A refused request moves nothing."""
        for uuid, found in self._found.items():
            if claimed := len(found) - len(self._free[uuid]):
                last, row = found[claimed - 1], self._rows[uuid]
                after = last + 1 if last < row.last_number else row.first_number
                tx.update(NETWORKS, uuid, {"next_number": after})

    def _take(self, plug: JSONMapping, asked: int) -> int:
        row = self._rows.get(plug["network"])
        if row is None:
            raise errors.NotFound(kind="Network", name=plug["name"])
        if plug["address"]:
            number = _number(plug["address"])
            if (row.uuid, number) not in self._named:
                reason = f"is taken in network {row.name}"
                raise errors.Conflict(kind="Address", name=plug["address"], reason=reason)
            self._named.discard((row.uuid, number))
            return number
        if not self._free[row.uuid]:
            count = row.last_number - row.first_number + 1
            reason = f"has too few free addresses in its range of {count}: the request needs {asked}"
            raise errors.Conflict(kind="Network", name=row.name, reason=reason)
        return self._free[row.uuid].popleft()


def write(tx: Transaction, instance: JSONMapping) -> None:
    """Insert the claims of a new instance at the end of the transaction, after its row."""
    for plug in instance.get("interfaces") or ():
        claim = {"network_uuid": plug["network"], "number": _number(plug["address"]), "mac": plug["mac"]}
        of = {"instance_uuid": instance["uuid"], "created_at": instance["created_at"]}
        tx.defer_insert(ADDRESSES, {"uuid": plug["uuid"], **claim, **of})


def release(tx: Transaction, instance_uuid: str) -> None:
    """Delete the claims of a locked instance. The caller clears ``interfaces`` of its row."""
    tx.execute(ADDRESSES.delete().where(ADDRESSES.c.instance_uuid == instance_uuid))


def _search(tx: Transaction, row: NetworkRow, count: int, kept: set[int]) -> list[int]:
    """The next free numbers, at most ``count``. :param kept: numbers that are left out"""
    found: list[int] = []
    kept = {*kept, *(_number(each) for each in (row.gateway, *row.dns) if each is not None)}
    for low, high in ((row.next_number, row.last_number), (row.first_number, row.next_number - 1)):
        width = count + _FIRST
        while low <= high and len(found) < count:
            until = min(high, low + width - 1)
            taken = _numbers(tx, row.uuid, low, until)
            found += [number for number in range(low, until + 1) if number not in taken and number not in kept]
            low, width = until + 1, width * _FACTOR
    return found[:count]


def _numbers(tx: Transaction, network: str, low: int, high: int) -> set[int]:
    return set(tx.execute(_TAKEN, {"network": network, "low": low, "high": high}).scalars())


def _number(address: str) -> int:
    return int(ipaddress.IPv4Address(address))


def _mac(uuid: str) -> str:
    """A unicast address that is administered locally; its other five bytes are the first of the uuid."""
    return bytes([2, *bytes.fromhex(uuid.replace("-", ""))[:5]]).hex(":")
