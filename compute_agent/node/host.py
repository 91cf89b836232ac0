# SPDX-License-Identifier: Apache-2.0
"""One host that the agent serves: its driver, its trackers and its identity.

:mod:`compute_agent.main` makes it, and all work on the host receives it.
"""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from oslo_log import log as logging

from compute_agent.drivers.base import ComputeDriver
from compute_agent.node.inventory import HostPolicy
from compute_agent.node.resource_tracker import ResourceTracker
from fleet import errors
from fleet.agent import time_limit
from fleet.context import RequestContext, new_context
from fleet.objects import Instance, Inventory, Migration

LOG = logging.getLogger(__name__)

Answer = TypeVar("Answer")
#: Seconds for which the driver is waited for that is asked something.
_QUESTION_S = 5.0
#: Called with the host's name and a sentence when another process has taken over the host.
Superseded = Callable[[str, str], None]


@dataclasses.dataclass(frozen=True)
class Undecided:
    """An attempt whose claim the ledger may or may not have: the call is unanswered and may still be on its way."""

    attempt: int
    node: str
    alternates: Sequence[object] = ()


class Host:
    """``incarnation`` identifies this run of the process. The lock guards the map of trackers, not the trackers."""

    def __init__(
        self, name: str, driver: ComputeDriver, policy: HostPolicy, incarnation: str, superseded: Superseded
    ) -> None:
        self.name = name
        self.driver = driver
        self.policy = policy
        self.incarnation = incarnation
        self._superseded = superseded
        self._lock = threading.Lock()
        #: Instances whose claim the ledger has not answered: the attempt of the claim.
        self.undecided: dict[str, Undecided] = {}
        self._trackers: dict[str, ResourceTracker] = {}
        #: By instance, held while the driver destroys its guest.
        self._destroying: weakref.WeakValueDictionary[str, threading.Lock] = weakref.WeakValueDictionary()
        #: Held while the driver is asked something, and while an audit asks it.
        self._asking, self._auditing = time_limit.Asking(), time_limit.Asking()
        #: True if the driver has not answered the last audit in time.
        self.hangs = False
        #: Inventories by node, from the ledger at registration.
        self.recorded: Mapping[str, Inventory] = {}

    def set_nodes(self, nodes: Iterable[str]) -> dict[str, ResourceTracker]:
        """Return the trackers of ``nodes``, creating missing ones; trackers of other nodes are dropped."""
        with self._lock:
            known = self._trackers
            self._trackers = {
                node: known.get(node)
                or ResourceTracker(self.name, node, self.policy.packs_numa_cells, self.policy.forgive_after_s)
                for node in nodes
            }
            current = dict(self._trackers)
        for node in sorted(set(known) - set(current)):
            held = len(known[node].view().instances)
            LOG.info(
                "Removing compute node %s:%s: its driver no longer reports it; %d instances", self.name, node, held
            )
        return current

    def trackers(self) -> list[ResourceTracker]:
        with self._lock:
            return list(self._trackers.values())

    def tracker(self, node: str | None) -> ResourceTracker:
        """Return the tracker of ``node``, or of the first node. :raises errors.NotFound:"""
        with self._lock:
            if node is None and self._trackers:
                return next(iter(self._trackers.values()))
            try:
                return self._trackers[node or ""]
            except KeyError:
                raise errors.NotFound(kind="Node", name=f"{self.name}:{node}") from None

    def tracked(self) -> frozenset[str]:
        """Return the instances that hold something on any node."""
        return frozenset().union(*(tracker.view().instances for tracker in self.trackers()))

    def destroy(self, context: RequestContext, instance_uuid: str) -> None:
        """Let the driver destroy a guest.

        :raises time_limit.Overrun: the driver does not return in time, or an earlier call for the guest has not returned yet
        :raises Exception: whatever the driver raises
        """
        under_way = self._destroying.setdefault(instance_uuid, threading.Lock())
        # Orders are repeated: each would leave a thread in a driver that hangs.
        if not under_way.acquire(blocking=False):
            raise time_limit.Overrun("an earlier call of the driver for this guest has not ended")

        def destroy() -> None:
            try:
                self.driver.destroy(context, instance_uuid)
            finally:
                under_way.release()

        time_limit.run_within(context, self.policy.driver_timeout_s, destroy)

    def ask(self, context: RequestContext, question: Callable[[], Answer]) -> Answer:
        """Let the driver answer a question, which must not keep orders waiting: they have the same thread.

        :raises errors.ServiceDown: the driver does not answer soon, or owes another answer
        """
        limit_s = self.policy.driver_timeout_s and min(self.policy.driver_timeout_s, _QUESTION_S)
        try:
            return self._asking.ask(context, limit_s, question)
        except time_limit.NotBegun as none:
            reason = f"its agent cannot ask the driver: {none}"
            raise errors.ServiceDown(binary="fleet-compute", host=self.name, reason=reason) from None
        except time_limit.Overrun as late:
            reason = f"its driver does not answer: {late}"
            raise errors.ServiceDown(binary="fleet-compute", host=self.name, reason=reason) from None

    def ask_for_audit(self, question: Callable[[], Answer]) -> Answer:
        """Let the driver answer a question of an audit. A hypervisor or a storage that hangs must be found out.

        :raises time_limit.Overrun: the driver does not answer within ``driver_timeout``, or owes another answer
        """
        # A simulated driver does not hang, and there may be thousands.
        limit_s = None if self.driver.simulated else self.policy.driver_timeout_s
        return self._auditing.ask(new_context(), limit_s, question)

    def count(self, uuid: str, instance: Instance | None, migration: Migration | None = None) -> None:
        """Hold for an instance, on every node, exactly the resources in the ledger.

        :param instance: from the ledger; None, or one on another host, holds nothing here
        :param migration: its move, which may hold something here, too
        """
        for tracker in self.trackers():
            is_here = instance is not None and (instance.host, instance.node) == (self.name, tracker.node)
            moving = migration.claim_on(self.name, tracker.node) if migration else None
            tracker.count(uuid, instance if is_here else None, moving)

    def drop_move_claim(self, instance_uuid: str) -> None:
        for tracker in self.trackers():
            tracker.drop_move_claim(instance_uuid)

    def release(self, instance_uuid: str) -> None:
        for tracker in self.trackers():
            tracker.release(instance_uuid)

    def orphan(self, instance_uuid: str) -> None:
        for tracker in self.trackers():
            tracker.orphan(instance_uuid)

    def is_orphan(self, instance_uuid: str) -> bool:
        """Return True if a clean-up of the instance has failed here. The driver may list its guest later."""
        return any(tracker.is_orphan(instance_uuid) for tracker in self.trackers())

    def suspend_unread(self, reason: str) -> None:
        """Take no claims on nodes without an inventory: a claim that is not tested holds nothing, here and in the ledger."""
        for tracker in self.trackers():
            if tracker.report is None:
                tracker.suspend(reason)

    def alarm(self) -> str:
        """Return why the host takes no new builds; "" if it does."""
        return "; ".join(tracker.alarm for tracker in self.trackers() if tracker.alarm)

    def superseded(self, reason: str) -> None:
        self._superseded(self.name, reason)
