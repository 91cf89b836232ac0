# SPDX-License-Identifier: Apache-2.0
"""Room that the plans of all losses need.

Called by :mod:`scheduler.compute.planning.losses.promises` and :mod:`scheduler.compute.tolerance.admission`. Hosts are
lost one loss at a time, so plans of different losses share room.

A plan stays valid while each of its nodes has free what the plan puts there: ``reserved`` of the loss. A node therefore must
keep free the most that any single loss puts there: ``kept``. A new proof renews the losses that it has looked at.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from fleet.objects import Aggregate
from fleet.objects.tolerance import REFUSE
from scheduler.compute.tolerance.amounts import demand_of, minus
from scheduler.compute.tolerance.hardware import Hardware, KeptHardware
from scheduler.compute.tolerance.kept import NOTHING, Amount, Kept, KeptThings, Node, exceeds, is_short, least, told
from scheduler.compute.tolerance.losses import STRICTNESS, Admitted, Loss, Objection, Promise, Renewal

#: Nodes that keep the most, which are looked at to find one whose kept room serves another loss, and those returned.
_LOOKED, _SHARED = 16, 3
_NAMES = ("vcpus", "MB of memory", "MB of disk")
#: By loss, the part of what it puts on a node that an instance finds there anyway.
Own = Mapping[Loss, Amount]
_NOT_OWN: Own = types.MappingProxyType({})


class Guard:
    """Used under a lock of its owner.

    :param losses: all that the promises are about, in the order of their numbers
    :param hosts: names of all hosts that the proof has seen; none before the first proof
    """

    def __init__(
        self, promises: Sequence[Promise], losses: Sequence[Loss], hosts: Collection[str] = frozenset()
    ) -> None:
        self.promises = promises
        self.hosts = frozenset(hosts)
        self.losses = losses
        self._kept, self._hardware = Kept(), KeptHardware()
        #: The groups of which losses put members there that stay apart.
        self._members: KeptThings[str] = KeptThings()
        self._unsafe: dict[str, frozenset[str]] = {}
        for loss in losses:
            self._count(loss)
        #: The nodes whose kept room :meth:`sharing` looks at.
        self.most_kept = self._largest(self._kept.nodes)
        self._overtaken: list[Loss] = []
        self._shifted: set[Loss] = set()

    def compare(self, free: Mapping[Node, Amount]) -> bool:
        """Mark the losses whose plans need more than is free, until the next call. Return True if there are none.

        A proof may be older than what was placed since, and promises do not bind everything that is placed.
        :param free: of the nodes in :attr:`keeping`, beside all bookings
        """
        for loss in self._overtaken:
            loss.overtaken = ""
        self._overtaken = []
        for node in self.keeping:
            # A node that has gone is left to the next proof.
            left = free.get(node)
            if left is None or not exceeds(self._kept.most(node), left):
                continue
            for loss in self.losses:
                if node in loss.reserved and exceeds(loss.reserved[node], left):
                    loss.overtaken = f"not proved: its plan needs more of {told(node)} than is free now"
                    self._overtaken.append(loss)
        self._unsafe.clear()
        return not self._overtaken

    def renew(self, renewals: Iterable[Renewal]) -> None:
        """Take the new plans of some losses in place of the former ones."""
        touched: set[Node] = set()
        for each in renewals:
            loss = self.losses[each.number]
            self._uncount(loss)
            touched.update(each.reserved)
            was_broken, loss.problem = bool(loss.problem), each.problem
            loss.reserved, loss.hardware, loss.groups = each.reserved, each.hardware, each.groups
            loss.replace_places(each.places)
            self._shifted.discard(loss)
            self._count(loss)
            if was_broken != bool(each.problem):
                self._unsafe.clear()
        self.most_kept = self._largest(touched.union(self.most_kept))

    def _count(self, loss: Loss) -> None:
        for node, amount in loss.reserved.items():
            self._kept.add(node, amount)
        for node, hardware in loss.hardware.items():
            self._hardware.add(node, hardware)
        for node, groups in loss.groups.items():
            for group in groups:
                self._members.add(node, group)

    def _uncount(self, loss: Loss) -> None:
        for node, amount in loss.reserved.items():
            self._kept.take(node, amount)
        for node, hardware in loss.hardware.items():
            self._hardware.take(node, hardware)
        for node, groups in loss.groups.items():
            for group in groups:
                self._members.take(node, group)

    def _largest(self, nodes: Iterable[Node]) -> list[Node]:
        """Nodes that keep the most memory first: their room serves most other losses."""

        def size(node: Node) -> tuple[int, int, int, Node]:
            vcpus, memory_mb, disk_mb = self._kept.most(node)
            return -memory_mb, -vcpus, -disk_mb, node

        return heapq.nsmallest(_LOOKED, (node for node in nodes if self._kept.most(node) != NOTHING), size)

    @property
    def keeping(self) -> list[Node]:
        """Nodes on which plans put anything."""
        return list(self._kept.nodes)

    def kept(self, node: Node) -> Amount:
        """Return the amounts that the node must keep free: the most that any single loss puts there."""
        return self._kept.most(node)

    def hardware(self, node: Node) -> Collection[Hardware]:
        """Return the kinds of guests with cells or devices that losses put there."""
        return self._hardware.on(node)

    def nodes_with_hardware(self, of_several: bool) -> Collection[Node]:
        """Return the nodes that are kept for guests with cells or devices.

        :param of_several: only those to which some loss brings several guests: they take no further one
        """
        return self._hardware.nodes_of_several() if of_several else self._hardware.nodes()

    def nodes_for_members(self, group: str | None) -> list[Node]:
        """Return the nodes on which some loss puts a member of a group whose members stay apart; none for no group."""
        return self._members.nodes_of(group)

    def has(self, policy: str) -> bool:
        """Return True if a promise is at least as strict."""
        return STRICTNESS[self.policy] >= STRICTNESS[policy]

    @functools.cached_property
    def only_refuses(self) -> bool:
        """All promises are of the strictest policy."""
        return all(each.tolerance.policy == REFUSE for each in self.promises)

    def _as_strict(self, policy: str) -> Sequence[Promise]:
        return [each for each in self.promises if STRICTNESS[each.tolerance.policy] >= STRICTNESS[policy]]

    def unseen(self, host: str, aggregates: Sequence[Aggregate]) -> Objection | None:
        """Return the objection to a host that the proof has not seen; None if no promise covers it."""
        covering = [each for each in self.promises if each.covers([host], aggregates)]
        if not covering:
            return None
        sentence = f"{host} takes no more until a proof has seen it: no plan is known for its guests"
        return Objection(host, sentence, self._strictest(covering))

    def covered(self, policy: str, hosts: Sequence[str], aggregates: Sequence[Aggregate]) -> set[str]:
        """Return those of these hosts that a promise covers which is at least as strict."""
        return {host for each in self._as_strict(policy) for host in each.covers(hosts, aggregates)}

    def unsafe_hosts(self, policy: str) -> frozenset[str]:
        """Hosts whose guests have no plan as it is. :param policy: of promises that are at least as strict"""
        if policy not in self._unsafe:
            self._unsafe[policy] = frozenset(
                host
                for promise in self._as_strict(policy)
                for host, losses in promise.losses_of.items()
                if any(loss.why for loss in losses)
            )
        return self._unsafe[policy]

    def takes(self, node: Node, free: Amount, demand: Amount) -> bool:
        """Return True if the node keeps what plans need beside an instance of this size. :param free: before it"""
        kept = self._kept.most(node)
        return not any(is_short(each) for each in zip(free, demand, kept, strict=True))

    def takes_beside(self, policy: str) -> Callable[[Node, Amount, Amount], bool]:
        """Return :meth:`takes` by the promises that are at least as strict; if some are not, all losses are read."""
        strict = self._as_strict(policy)
        if len(strict) == len(self.promises):
            return self.takes
        kept: dict[Node, Amount] = {}
        for loss in {id(loss): loss for each in strict for there in each.losses_of.values() for loss in there}.values():
            for node, (vcpus, memory_mb, disk_mb) in loss.reserved.items():
                most = kept.get(node, NOTHING)
                kept[node] = max(vcpus, most[0]), max(memory_mb, most[1]), max(disk_mb, most[2])

        def takes(node: Node, free: Amount, demand: Amount) -> bool:
            return not any(map(is_short, zip(free, demand, kept.get(node, NOTHING), strict=True)))

        return takes

    def short(self, node: Node, free: Amount, demand: Amount, own: Own = _NOT_OWN) -> list[Loss]:
        """Return the losses whose plans need what an instance of this size would take. :param free: before it"""
        if self.takes(node, free, demand):
            return []
        return [loss for loss in self.losses if self.is_short(loss, node, free, demand, own)]

    @staticmethod
    def is_short(loss: Loss, node: Node, free: Amount, demand: Amount, own: Own = _NOT_OWN) -> bool:
        """Return True if the plan of the loss needs what an instance of this size would take. :param free: before it"""
        if node not in loss.reserved:
            return False
        kept = minus(loss.reserved[node], own.get(loss, NOTHING))
        return any(map(is_short, zip(free, demand, kept, strict=True)))

    def taken(self, node: Node, free: Amount, demand: Amount, own: Own = _NOT_OWN) -> Objection | None:
        """Return why an instance of this size would take what a plan needs of the node, or None. :param free: before it"""
        short = self.short(node, free, demand, own)
        if not short:
            return None
        kept_by = {loss: minus(loss.reserved[node], own.get(loss, NOTHING)) for loss in short}
        promise = self._strictest(self._about(short))
        owned = [loss for loss in short if any(promise is each for each in self._promises_of[id(loss)])]
        number = next(
            part
            for part in range(len(demand))
            if any(is_short((free[part], demand[part], kept_by[loss][part])) for loss in owned)
        )
        needing = max(owned, key=lambda loss: kept_by[loss][number])
        kept = kept_by[needing][number]
        sentence = (
            f"{told(node)} has {free[number]} {_NAMES[number]} free, of which {kept} are kept for the guests of "
            f"{needing.name}: {demand[number]} more do not fit beside them"
        )
        return Objection(node[0], sentence, promise, node)

    @functools.cached_property
    def _promises_of(self) -> dict[int, list[Promise]]:
        """The promises about a loss, by the id of the loss."""
        found: dict[int, list[Promise]] = {}
        for promise in self.promises:
            for loss in {id(loss): loss for losses in promise.losses_of.values() for loss in losses}:
                found.setdefault(loss, []).append(promise)
        return found

    def _about(self, losses: Iterable[Loss]) -> Sequence[Promise]:
        return [promise for loss in losses for promise in self._promises_of[id(loss)]]

    def unsafe(self, host: str) -> Objection | None:
        """Return why the host takes no more: its guests have no plan as it is; None if they have one."""
        broken = [(promise, loss) for promise in self.promises for loss in promise.losses_of.get(host, ()) if loss.why]
        if not broken:
            return None
        loss = broken[0][1]
        sentence = f"{host} takes no more, as the loss of {loss.name} is not survived: {loss.why}"
        return Objection(host, sentence, self._strictest([promise for promise, _loss in broken]))

    def crowded(self, node: Node) -> Objection:
        """Return the objection to a guest whose cells or devices are those of guests that the node is kept for."""
        sentence = f"{told(node)} is kept for guests of lost hosts, whose cells or devices would not be free any more"
        return Objection(node[0], sentence, self._strictest(self._about(self._hardware_on(node))), node)

    def apart(self, node: Node, group: str | None, own: Own = _NOT_OWN) -> Objection | None:
        """Return the objection to a member of a group where a loss puts another one, which would not pass beside it.

        :param own: losses that put this member there
        """
        if group not in self._members.on(node):
            return None
        putting = [loss for loss in self.losses if group in loss.groups.get(node, ()) and loss not in own]
        if own and not putting:
            return None
        lost = putting[0].name if putting else "another host"
        sentence = f"{told(node)} is kept for a member of its group, which would go there if {lost} was lost"
        return Objection(node[0], sentence, self._strictest(self._about(putting)), node)

    def _hardware_on(self, node: Node) -> list[Loss]:
        return [loss for loss in self.losses if node in loss.hardware]

    def homeless(self, host: str, loss: Loss) -> Objection:
        sentence = f"an instance on {host} would find no other host if {loss.name} was lost"
        return Objection(host, sentence, self._strictest(self._about([loss])))

    def losses_of(self, host: str) -> list[Loss]:
        found = {id(loss): loss for promise in self.promises for loss in promise.losses_of.get(host, ())}
        return list(found.values())

    def own(self, uuid: str, host: str, node: Node, demand: Amount) -> dict[Loss, Amount]:
        """Return, of the losses of its host that put a guest on a node, what its claim of this size there stands for.

        If the host is lost while the guest moves to the node, its place is the room that it has claimed.
        """
        found = {}
        for loss in self.losses_of(host):
            there = loss.guests.get(uuid)
            if there is not None and there.node == node:
                found[loss] = least(demand_of(there.request), demand)
        return found

    def shift(self, loss: Loss, uuid: str, node: Node) -> None:
        """Give a guest another place in the plan of a loss. It is in no group with rules, and has no cells or devices."""
        guest = loss.guests[uuid]
        demand = demand_of(guest.request)
        self._reserve(loss, guest.node, demand, -1)
        self._reserve(loss, node, demand, 1)
        loss.guests[uuid] = guest._replace(node=node)
        self._shifted.add(loss)
        self.most_kept = self._largest({*self.most_kept, node})

    def shifted(self) -> list[int]:
        """Return the numbers of the losses whose plans are not those of a proof, because of :meth:`shift`."""
        if not self._shifted:
            return []
        return [number for number, loss in enumerate(self.losses) if loss in self._shifted]

    @staticmethod
    def is_spare(loss: Loss, node: Node, free: Amount, demand: Amount) -> bool:
        """Return True if the node could take an instance of this size if the loss happened."""
        if node[0] in loss.hosts:
            return False
        reserved = loss.reserved.get(node, NOTHING)
        return all(left - used >= asked or not asked for left, used, asked in zip(free, reserved, demand, strict=True))

    def sharing(self, loss: Loss, demand: Amount, free: Mapping[Node, Amount]) -> list[Node]:
        """Nodes that keep room for other losses, which an instance of this size may use in this one.

        Room that was taken all the same is no room: ``free`` has what the nodes in :attr:`most_kept` really have left.
        """

        def has_left(node: Node) -> bool:
            return Guard.is_spare(loss, node, self._kept.most(node), demand) and (
                node in free and Guard.is_spare(loss, node, free[node], demand)
            )

        return list(itertools.islice(filter(has_left, self.most_kept), _SHARED))

    def admit(self, admitted: Admitted) -> None:
        """Put an instance into the plans."""
        for loss, spare in admitted.spares:
            self._reserve(loss, spare, admitted.demand, 1)
            if admitted.hardware is not None:
                there = loss.hardware.get(spare)
                self._put(loss, spare, admitted.hardware if there is None else there.with_more(admitted.hardware))
            if admitted.group is not None and admitted.group not in loss.groups.get(spare, ()):
                loss.groups[spare] = loss.groups.get(spare, frozenset()) | {admitted.group}
                self._members.add(spare, admitted.group)
                admitted.brought.append((loss, spare))
            if spare not in self.most_kept and len(self.most_kept) < _LOOKED:
                self.most_kept.append(spare)

    def withdraw(self, admitted: Iterable[Admitted]) -> None:
        """Take instances out of the plans again."""
        for each in admitted:
            for loss, spare in each.spares:
                self._reserve(loss, spare, each.demand, -1)
                if each.hardware is not None and spare in loss.hardware:
                    self._put(loss, spare, loss.hardware[spare].without(each.hardware))
            for loss, spare in each.brought:
                if each.group is not None and each.group in loss.groups.get(spare, ()):
                    loss.groups[spare] -= {each.group}
                    self._members.take(spare, each.group)

    def _put(self, loss: Loss, node: Node, hardware: Hardware | None) -> None:
        """Let a loss put these guests with cells or devices on a node, in place of the former ones."""
        if node in loss.hardware:
            self._hardware.take(node, loss.hardware.pop(node))
        if hardware is not None:
            self._hardware.add(node, hardware)
            loss.hardware[node] = hardware

    def _reserve(self, loss: Loss, node: Node, demand: Amount, sign: int) -> None:
        before = loss.reserved.get(node)
        vcpus, memory_mb, disk_mb = before or NOTHING
        now = vcpus + sign * demand[0], memory_mb + sign * demand[1], disk_mb + sign * demand[2]
        if before is not None:
            self._kept.take(node, before)
        if now == NOTHING:
            loss.reserved.pop(node, None)
        else:
            self._kept.add(node, now)
            loss.reserved[node] = now

    @functools.cached_property
    def policy(self) -> str:
        """The strictest of all promises."""
        return self._strictest(self.promises).tolerance.policy

    @staticmethod
    def strictest(objections: Iterable[Objection | None]) -> Objection | None:
        """Return the objection by the strictest promise, the first among equals."""
        there = [each for each in objections if each is not None]
        return max(there, key=lambda each: STRICTNESS[each.policy], default=None)

    @staticmethod
    def _strictest(promises: Sequence[Promise]) -> Promise:
        return max(promises, key=lambda each: STRICTNESS[each.tolerance.policy])
