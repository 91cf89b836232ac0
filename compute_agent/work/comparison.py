# SPDX-License-Identifier: Apache-2.0
"""Compares what hosts hold with what the ledger has there, and settles differences.

Called by :mod:`compute_agent.agent`. Differences are few and often short: a build claims here first, a termination
releases here first. So each difference is checked again in its instance's queue, where no other work on the instance
runs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

from oslo_log import log as logging

from compute_agent.ledger.build_calls import BuildCalls
from compute_agent.ledger.move_calls import MoveCalls
from compute_agent.node.host import Host
from compute_agent.work import recovery
from compute_agent.work.power_sync import PowerSync, observe
from fleet import errors
from fleet.agent.patience import Unanswered
from fleet.agent.work_queues import WorkQueues
from fleet.context import RequestContext, new_context

LOG = logging.getLogger(__name__)

#: Hosts in one message.
HOSTS_A_CALL = 200


def compare(
    hosts: Sequence[tuple[Host, WorkQueues]],
    calls: BuildCalls,
    moves: MoveCalls | None = None,
    guests: PowerSync | None = None,
) -> int:
    """Compare all ``hosts``; return the number of instances that are checked again.

    :param guests: compares power states, too
    """
    context = new_context()
    looked_at = 0
    for batch in _batches(hosts):
        read = {host.name: (host, queues, seen) for host, queues in batch if (seen := _read(host, guests)) is not None}
        held = {name: sorted(seen.instances) for name, (_host, _queues, seen) in read.items()}
        power = {name: seen.power for name, (_host, _queues, seen) in read.items()} if guests else {}
        try:
            doubtful = calls.compare_instances(context, held, power)
        except Unanswered as unanswered:
            LOG.info("Cannot compare with the ledger: %s", unanswered)
            return looked_at
        for name, (host, queues, seen) in read.items():
            down = guests.down(seen.power) if guests else ()
            uuids = sorted({*doubtful.get(name, ()), *seen.apart, *down})
            looked_at += sum(_look_again(context, host, queues, calls, moves, guests, uuid) for uuid in uuids)
    return looked_at


@dataclasses.dataclass(frozen=True)
class _Seen:
    """One host before it is compared.

    :param instances: what it holds, and its guests that an agent of this fleet spawned
    :param apart: those that are checked again even if the ledger agrees: guests with a mark of a move, and guests without
        a claim, as on a node that the driver did not report for a while
    :param power: the power states of ``instances``
    """

    instances: frozenset[str]
    apart: frozenset[str]
    power: dict[str, int]


def _read(host: Host, guests: PowerSync | None) -> _Seen | None:
    """Return None if the driver fails or hangs: the other hosts of this process are compared all the same."""

    def read() -> _Seen:
        usage, tracked = host.driver.get_per_instance_usage(), host.tracked()
        own = recovery.own_guests(usage)
        instances = frozenset({*tracked, *own})
        apart = frozenset({*recovery.unfinished(usage), *(own - tracked)})
        return _Seen(instances, apart, observe(host, sorted(instances)) if guests else {})

    try:
        return host.ask_for_audit(read)
    except Exception as failure:
        LOG.warning(
            "Host %s cannot be compared with the ledger: the driver failed: %s: %s",
            *(host.name, type(failure).__name__, failure),
        )
        return None


def notice(host: Host, queues: WorkQueues, guests: PowerSync, uuid: str) -> bool:
    """The driver has announced that the power state of a guest has changed. Return True if it is looked at."""
    if uuid not in host.tracked() or queues.busy(uuid):
        return False
    return queues.submit(uuid, functools.partial(guests.noticed, new_context(), host, uuid))


def _look_again(
    context: RequestContext,
    host: Host,
    queues: WorkQueues,
    calls: BuildCalls,
    moves: MoveCalls | None,
    guests: PowerSync | None,
    uuid: str,
) -> bool:
    """Return True if the instance is checked again. An instance with work in its queue is settled by that work."""
    if queues.busy(uuid):
        return False
    return queues.submit(uuid, functools.partial(_settle, context, host, calls, moves, guests, uuid))


def _settle(
    context: RequestContext,
    host: Host,
    calls: BuildCalls,
    moves: MoveCalls | None,
    guests: PowerSync | None,
    uuid: str,
) -> None:
    try:
        recovery.settle(context, host, calls, uuid, moves, guests)
    except (Unanswered, errors.FleetError) as unsettled:
        LOG.info("Instance %s stays as it is until the next comparison: %s", uuid, unsettled)


def _batches(hosts: Sequence[tuple[Host, WorkQueues]]) -> Iterator[Sequence[tuple[Host, WorkQueues]]]:
    for start in range(0, len(hosts), HOSTS_A_CALL):
        yield hosts[start : start + HOSTS_A_CALL]
