# SPDX-License-Identifier: Apache-2.0
"""The transactions of a move that is asked for: accepted, confirmed or reverted, or refused with the reason.

Called by :mod:`.intake` for operators, and by the tasks that begin moves: balance, maintenance, recovery, restarts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conductor_stub.moves import failures, machine, swap, ways
from conductor_stub.moves.machine import Move
from conductor_stub.steps import devices, reach
from conductor_stub.steps.limits import StepContext
from fleet import capacity, errors, failpoints, move_states, states, volume_states
from fleet.clock import seconds
from fleet.db.catalog import quotas
from fleet.db.engine.database import Transaction
from fleet.db.hosts import hosts, services
from fleet.db.instances import instance_values, instances, moves
from fleet.db.operations import recoveries
from fleet.db.tables.instances import RequestedInstance
from fleet.db.volumes import attachments
from fleet.db.volumes.attachments import PlacedAttachment
from fleet.json_codec import JSONMapping
from fleet.objects import host_report
from fleet.objects.plans import MovePlan

FIRST_ATTEMPT = 1
_ADVICE = {
    states.STOPPED: "start it first",
    states.VM_SUSPENDED: "resume it first",
    **dict.fromkeys((states.SHELVED, states.SHELVED_OFFLOADED), "unshelve it first"),
    states.RESIZED: "confirm or revert its resize first",
    states.ERROR: "rebuild it if it has a host; otherwise delete it and create another",
}


@failpoints.commits("conductor.move_accept")
def accept(
    tx: Transaction,
    uuid: str,
    instance_uuid: str,
    kind: str,
    new_spec: JSONMapping | None,
    ctx: StepContext,
    destination: str | None = None,
    same_host: bool = False,
    confirms: bool = False,
    promised: bool = False,
    preferred: str | None = None,
) -> Move:
    """Write the record and the instance's task. From now on the move ends within ``move_timeout``.

    :param new_spec: what a resize changes: ``flavor``, ``numa_topology``, ``pci_requests``
    :param destination: the only host to consider
    :param same_host: whether a resize may keep its host
    :param confirms: whether a resize is confirmed when the guest runs on its new host
    :param promised: whether the move is given up if it would break a tolerance, whatever its policy
    :param preferred: the only host to consider at the first attempt
    :raises errors.Conflict: errors.InvalidInput: errors.NotFound: errors.QuotaExceeded:
    """
    row = instances.lock(tx, instance_uuid)
    if moves.find(tx, uuid) is not None:
        return machine.read(tx, uuid)
    _require_settled(tx, row, kind, ctx)
    instance_values.require_readable(row)
    spec = instance_values.spec_of(row)
    old_spec = {key: spec.get(key) for key in ("flavor", "numa_topology", "pci_requests")}
    if kind == move_states.EVACUATION:
        _require_down(tx, row, ctx)
    elif new_spec is not None and new_spec["flavor"] == old_spec["flavor"]:
        raise errors.InvalidInput(field="flavor", reason=f"is what {row.name} has already")
    if new_spec is not None and row.root_gb and not new_spec["flavor"]["root_gb"]:
        # Its disk would stay as large, and be claimed no more.
        reason = f"is 0, and {row.name} has a root disk of {row.root_gb} GB: a disk cannot become smaller"
        raise errors.InvalidInput(field="flavor.root_gb", reason=reason)
    if destination is not None:
        _require_another_host(tx, row, destination)
    if kind == move_states.LIVE_MIGRATION:
        _require_up(tx, row, ctx)
        ways.require_able(tx, row, destination)
    if kind == move_states.RESIZE and not (new_spec is not None and same_host):
        _require_way(tx, row)
    _require_movable_volumes(tx, row, kind, destination, new_spec, stays=new_spec is not None and same_host)
    if new_spec is not None:
        _take_growth(tx, row, new_spec["flavor"], ctx)
    deadline = ctx.now + seconds(ctx.limits.move_timeout_s)
    values = {
        "uuid": uuid,
        "instance_uuid": row.uuid,
        "migration_type": kind,
        "status": move_states.ACCEPTED,
        "attempt": FIRST_ATTEMPT,
        "source_compute": row.host,
        "source_node": row.node,
        "old_spec": old_spec,
        "new_spec": dict(new_spec or old_spec),
        "plan": _plan(destination, preferred, confirms, promised),
        "deadline": deadline,
        # The cast that follows may be lost: the sweeper then hands the move out again.
        "step_deadline": ctx.due(ctx.limits.placing_timeout_s, deadline),
        "request_id": ctx.request_id,
        "created_at": ctx.now,
    }
    tx.insert(moves.MIGRATIONS, values)
    move = machine.read(tx, uuid)
    machine.set_instance(tx, row, ctx, task_state=failures.waiting_task(move.record))
    machine.refresh_usage(tx, move, ctx)
    return machine.read(tx, uuid)


def _plan(destination: str | None, preferred: str | None, confirms: bool, promised: bool) -> MovePlan:
    plan: MovePlan = {}
    if preferred is not None:
        plan["preferred"] = preferred
    if destination is not None:
        plan["destination"] = destination
    if confirms:
        plan["confirms"] = True
    if promised:
        plan["promised"] = True
    return plan


@failpoints.commits("conductor.move_confirm")
def confirm(tx: Transaction, instance_uuid: str, ctx: StepContext) -> Move:
    """``finished → confirming``: the source must release its claim. :raises errors.Conflict: errors.NotFound:"""
    move = _resized(tx, instance_uuid, move_states.CONFIRMING)
    if move.record.status == move_states.CONFIRMING:
        return move
    _require_guest(tx, move, ctx)
    return machine.set_status(tx, move, move_states.CONFIRMING, ctx)


@failpoints.commits("conductor.move_revert")
def revert(tx: Transaction, instance_uuid: str, ctx: StepContext) -> Move:
    """``finished → reverting``: the instance is the source's again, which still holds all that it needs.

    :raises errors.Conflict: errors.NotFound:
    """
    move = _resized(tx, instance_uuid, move_states.REVERTING)
    if move.record.status == move_states.REVERTING:
        return move
    _require_former_host(tx, move, ctx)
    swap.swap(tx, move, move.record.old_spec, ctx, launched_on=move.record.source_compute)
    deadline = ctx.now + seconds(ctx.limits.move_timeout_s)
    return machine.set_status(tx, machine.read(tx, move.uuid), move_states.REVERTING, ctx, deadline=deadline)


def _resized(tx: Transaction, instance_uuid: str, wanted: str) -> Move:
    """The resize that waits for its confirmation, or is at ``wanted`` already."""
    row = instances.lock(tx, instance_uuid)
    record = moves.of_instance(tx, instance_uuid)
    waits = record is not None and record.status in (move_states.FINISHED, wanted)
    if not waits or record is None or row.deleted or row.task_state == states.DELETING:
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"is {_state(row)}, and no resize of it waits")
    return machine.read(tx, record.uuid)


def _require_guest(tx: Transaction, move: Move, ctx: StepContext) -> None:
    """A confirmation removes the guest on the former host. That is the only one left if the new host is lost.

    The messages name no host: a project may confirm, and does not learn where its guests are.

    :raises errors.Conflict:
    """
    record = move.record
    if record.dest_compute == record.source_compute or machine.is_up(tx, record.dest_compute, ctx):
        return
    reason = "is on a host that is down, and so is its former host: wait until one of them is up"
    if machine.is_up(tx, record.source_compute, ctx):
        reason = "is on a host that is down: revert its resize, its former host still has its guest"
    elif record.dest_compute is not None and recoveries.is_off(tx, record.dest_compute):
        reason = "is on a host that is off, and its former host is down: revert its resize, then it can be evacuated"
    raise errors.Conflict(kind="Instance", name=move.instance.name, reason=reason)


def _require_former_host(tx: Transaction, move: Move, ctx: StepContext) -> None:
    """A revert removes the guest that runs, for one on the former host, which must be able to start it.

    If the new host is off for certain no guest runs there. The instance may then return to a host that is down too, and be
    evacuated from it.

    :raises errors.Conflict:
    """
    record = move.record
    if machine.is_up(tx, record.source_compute, ctx):
        return
    if record.dest_compute is not None and recoveries.is_off(tx, record.dest_compute):
        return
    may_confirm = record.dest_compute == record.source_compute or machine.is_up(tx, record.dest_compute, ctx)
    advice = "confirm its resize, or wait until that host is up" if may_confirm else "wait until one of them is up"
    which = "its former host is down" if may_confirm else "its former host is down, and so is its present one"
    raise errors.Conflict(kind="Instance", name=move.instance.name, reason=f"cannot return, {which}: {advice}")


def _require_settled(tx: Transaction, row: RequestedInstance, kind: str, ctx: StepContext) -> None:
    if row.deleted:
        raise errors.NotFound(kind="Instance", name=row.name)
    allowed: tuple[str, ...] = (states.ACTIVE,)
    if kind == move_states.EVACUATION:
        # Nothing on a host that is down can be started or rebuilt first.
        allowed = (states.ACTIVE, *states.AT_REST, *((states.ERROR,) if row.host is not None else ()))
    if row.task_state is not None or row.vm_state not in allowed:
        advice = "wait until its task has ended" if row.task_state else _ADVICE.get(row.vm_state, "it must be ACTIVE")
        if kind == move_states.EVACUATION and row.task_state is None and row.vm_state == states.RESIZED:
            advice = _advice_to_revert(tx, row, ctx)
        state = _state(row) if row.task_state else f"{_state(row)}, not ACTIVE"
        raise errors.Conflict(kind="Instance", name=row.name, reason=f"is {state}: {advice}")


def _advice_to_revert(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> str:
    """Return what to do with a resized instance whose host is down. It cannot be confirmed either."""
    revert = "revert its resize ('fleet server resize revert')"
    record = moves.of_instance(tx, row.uuid)
    if record is None or machine.is_up(tx, record.source_compute, ctx):
        return f"{revert}, its former host still has its guest"
    if record.dest_compute is not None and recoveries.is_off(tx, record.dest_compute):
        return f"{revert}: its former host is down too, and it can then be evacuated from there"
    return "its former host is down too: wait until one of them is up, or its present host is off for certain"


def _require_movable_volumes(
    tx: Transaction,
    row: RequestedInstance,
    kind: str,
    destination: str | None,
    new_spec: Mapping[str, object] | None,
    stays: bool,
) -> None:
    """Volumes follow an instance to hosts that reach them.

    :param stays: whether the instance may stay on its host
    :raises errors.Conflict:
    """

    def refuse(reason: str) -> None:
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)

    there = _to_be_moved(tx, row, kind)
    own = _own_disks(new_spec) if new_spec is not None else ()
    for each in there:
        if each.status != volume_states.ATTACHED:
            advice = "wait until that has ended"
            if kind == move_states.EVACUATION:
                advice = "if its host is certainly off, run 'fleet service force-down' for it, and evacuate it again"
            refuse(f"has volume {each.volume_name}, which is {each.status}: {advice}")
        if each.device in own:
            refuse(
                f"has volume {each.volume_name} as {each.device}, which is a disk of the new flavor: detach it first"
            )
    wanted = reach.needed(tx, [row.uuid]) if there else ()
    reported = reach.reports(tx) if wanted else ()
    lacking = reach.among(reported, wanted)
    if destination in lacking:
        refuse(lacking[destination].reason(destination))
    others = {host for host, _volume_hosts in reported} - {row.host}
    if others and not stays and lacking.keys() >= others:
        first = lacking[min(others)]
        # Without the machine: a project that resizes does not learn where its volumes are.
        advice = "detach it first, or see volume_hosts"
        if kind == move_states.EVACUATION:
            advice = "it waits for its host, or for one whose volume_hosts reach the data"
        refuse(f"has volume {first.volume}, whose data no other host reaches: {advice}")


def _to_be_moved(tx: Transaction, row: RequestedInstance, kind: str) -> Sequence[PlacedAttachment]:
    """Return the attachments that must be settled before the move.

    A host that is off for certain settles none. An evacuation from it leaves the unsettled ones behind, until it succeeds.
    """
    if kind == move_states.EVACUATION and row.host is not None and recoveries.is_off(tx, row.host):
        return attachments.that_follow(tx, [row.uuid])
    return attachments.of_instances(tx, [row.uuid])


def _own_disks(spec: JSONMapping) -> tuple[str, ...]:
    return devices.own(spec["flavor"].get("ephemeral_gb", 0), spec["flavor"].get("swap", 0))


def _take_growth(tx: Transaction, row: RequestedInstance, flavor: JSONMapping, ctx: StepContext) -> None:
    """:raises errors.QuotaExceeded: the quota of the project does not allow the growth to the new flavor"""
    headroom = quotas.look(tx, quotas.BUILDS, [row.project_id], ctx.limits.default_quota).headroom
    local_gb = capacity.local_disk_gb(flavor["root_gb"], flavor["ephemeral_gb"], flavor.get("swap", 0))
    now_gb = capacity.local_disk_gb(row.root_gb, row.ephemeral_gb, row.swap_mb)
    growth = {
        "cores": flavor["vcpus"] - row.vcpus,
        "ram": flavor["memory_mb"] - row.memory_mb,
        "local_gb": local_gb - now_gb,
    }
    headroom.take(row.project_id, **growth)


def _require_another_host(tx: Transaction, row: RequestedInstance, destination: str) -> None:
    """:raises errors.NotFound: errors.InvalidInput:"""
    if services.get(tx, destination, services.COMPUTE) is None:
        raise errors.NotFound(kind="Host", name=destination)
    if destination == row.host:
        raise errors.InvalidInput(field="host", reason=f"is {destination}, where {row.name} is already")


def _require_way(tx: Transaction, row: RequestedInstance) -> None:
    """:raises errors.Conflict: its disks cannot leave its host"""
    if hosts.stat_of(tx, row.host, row.node, host_report.DISKS) == "":
        reason = "cannot leave its host: nothing copies its disks to another one, see [libvirt] migration_uri"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)


def _state(row: RequestedInstance) -> str:
    return f"{row.vm_state.upper()} ({row.task_state})" if row.task_state else row.vm_state.upper()


def _require_up(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    """Only the source can move a running guest. A move that waits for it would hold up the evacuation of the guest.

    :raises errors.Conflict:
    """
    if not machine.is_up(tx, row.host, ctx):
        reason = (
            f"is on host {row.host}, whose {services.COMPUTE} is down: its guest cannot be migrated live. If the host "
            "is certainly off, evacuate it"
        )
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)


def _require_down(tx: Transaction, row: RequestedInstance, ctx: StepContext) -> None:
    """Two guests of one instance may ruin its data: nothing is rebuilt elsewhere while its host may be alive."""
    if machine.is_up(tx, row.host, ctx):
        reason = f"is on host {row.host}, whose {services.COMPUTE} is up: an evacuation is for hosts that are down"
        raise errors.Conflict(kind="Instance", name=row.name, reason=reason)
