# SPDX-License-Identifier: Apache-2.0
"""What holds at every instant, judged by the database alone."""

from __future__ import annotations

import collections
import datetime
from collections.abc import Callable, Iterator

from tests.invariants import networks, storage
from tests.invariants.ledger import RESOURCES, Ledger

Check = Callable[[Ledger], Iterator[str]]

#: The sweeper looks once a second and has a retry or two to spend; a database that is away holds it up.
GRACE_S = 20
MAX_ATTEMPTS = 3
_STATES = {
    ("building", "queued"),
    ("building", "scheduling"),
    ("building", "placing"),
    ("building", "spawning"),
    ("active", None),
    ("active", "resize_prep"),
    ("active", "resize_migrating"),
    ("active", "resize_finish"),
    ("active", "resize_reverting"),
    ("active", "migrating_prep"),
    ("active", "migrating"),
    ("active", "rebuilding"),
    ("active", "rebuild_spawning"),
    ("active", "powering-off"),
    ("active", "powering-on"),
    ("active", "rebooting"),
    ("active", "rebooting_hard"),
    ("active", "suspending"),
    ("stopped", None),
    ("stopped", "powering-off"),
    ("stopped", "powering-on"),
    ("stopped", "rebooting_hard"),
    ("stopped", "rebuilding"),
    ("stopped", "rebuild_spawning"),
    *((state, "rebuild_block_device_mapping") for state in ("active", "stopped", "error")),
    ("active", "shelving"),
    ("stopped", "shelving"),
    ("shelved", None),
    ("shelved", "shelving_offloading"),
    ("shelved_offloaded", None),
    *(("shelved", task) for task in ("unshelving", "rebuilding", "rebuild_spawning")),
    ("suspended", None),
    ("suspended", "suspending"),
    ("suspended", "resuming"),
    ("suspended", "rebooting_hard"),
    ("suspended", "rebuilding"),
    ("suspended", "rebuild_spawning"),
    ("resized", None),
    ("resized", "resize_confirming"),
    ("resized", "resize_reverting"),
    ("error", None),
    ("error", "rebuilding"),
    ("error", "rebuild_spawning"),
    ("deleted", None),
}
_ON_A_HOST = (("active", None), ("shelved", None), ("stopped", None), ("suspended", None), ("building", "spawning"))
_POWER_TASKS = (
    "powering-off",
    "powering-on",
    "rebooting",
    "rebooting_hard",
    "suspending",
    "resuming",
    "rebuild_block_device_mapping",
    "shelving",
    "unshelving",
    "shelving_offloading",
)


def nothing_is_overcommitted(ledger: Ledger) -> Iterator[str]:
    """I1: claims are at most (total − reserved) × ratio."""
    for node in ledger.nodes:
        for resource, (total, used, reserved, ratio, claimed) in RESOURCES.items():
            holders = [*ledger.on(node), *ledger.held_on(node)]
            claims = max(node[used] - node[reserved], sum(row[claimed] for row in holders))
            most = (node[total] - node[reserved]) * node[ratio]
            if claims > most:
                yield f"{node['host']}: claims of {resource} are {claims}, at most {most:.0f} are allowed"


def an_instance_is_on_one_host(ledger: Ledger) -> Iterator[str]:
    """I2: host and node are both there or both not, and the node exists."""
    known = {(node["host"], node["hypervisor_hostname"]) for node in ledger.nodes}
    for row in ledger.instances:
        where = (row["host"], row["node"])
        if where != (None, None) and where not in known:
            yield f"{row['uuid']} is on {where}, which is no node"
        if (row["vm_state"], row["task_state"]) in _ON_A_HOST and row["host"] is None:
            yield f"{row['uuid']} is {row['vm_state']} on no host"


def every_build_ends_in_time(ledger: Ledger) -> Iterator[str]:
    """I3: by its deadline each is ACTIVE, at rest, ERROR with a fault, or DELETED; no state that does not exist."""
    late = ledger.read_at - datetime.timedelta(seconds=GRACE_S)
    for row in ledger.live:
        state = (row["vm_state"], row["task_state"])
        if state not in _STATES and row["task_state"] != "deleting":
            yield f"{row['uuid']} is in no known state: {state}"
        timed = row["vm_state"] == "building" or row["task_state"] in _POWER_TASKS
        if timed and row["task_state"] != "deleting" and row["deadline"] < late:
            yield f"{row['uuid']} is {state} at attempt {row['attempt']}, its deadline was {row['deadline']}"
        if row["vm_state"] == "error" and not ledger.faults.get(row["uuid"]):
            yield f"{row['uuid']} is in ERROR without a fault"


def no_claim_without_a_live_instance(ledger: Ledger) -> Iterator[str]:
    """I4: what is deleted, in ERROR or not yet placed holds nothing."""
    for row in ledger.instances:
        holds = row["host"] is not None or any(row[claimed] for *_node, claimed in RESOURCES.values())
        settled = row["vm_state"] in ("active", "resized", "stopped", "suspended", "shelved")
        # A guest that has run may be in ERROR where it is: its rebuild has failed, or an administrator has said so.
        settled = settled or (row["vm_state"] == "error" and row["launched_at"] is not None)
        may_hold = not row["deleted"] and (settled or row["task_state"] in ("spawning", "deleting"))
        if holds and not may_hold:
            yield f"{row['uuid']} is {row['vm_state']}/{row['task_state']} and holds something on {row['host']}"
    live = {row["uuid"] for row in ledger.live}
    for move in ledger.migrations:
        if move["held_host"] is not None and move["instance_uuid"] not in live:
            yield f"the {move['migration_type']} of {move['instance_uuid']} holds something on {move['held_host']}"


def usage_is_the_sum(ledger: Ledger) -> Iterator[str]:
    """I5, the ledger's part: what a node has used is what it reserves and what its instances, and moves, claim."""
    for node in ledger.nodes:
        for resource, (_total, used, reserved, _ratio, claimed) in RESOURCES.items():
            expected = node[reserved] + sum(row[claimed] for row in [*ledger.on(node), *ledger.held_on(node)])
            if resource == "memory_mb":
                expected += node["orphaned_memory_mb"]
            if node[used] != expected:
                yield f"{node['host']}: {resource} used is {node[used]}, its instances say {expected}"


def attempts_are_bounded(ledger: Ledger) -> Iterator[str]:
    """I6: never more attempts than allowed, and each attempt ends once."""
    for row in ledger.instances:
        if row["attempt"] - row["earlier_attempts"] > MAX_ATTEMPTS:
            yield f"{row['uuid']} is at attempt {row['attempt']} of {MAX_ATTEMPTS}"
        ended = collections.Counter(
            event["attempt"] for event in ledger.events.get(row["uuid"], ()) if event["event"] == "attempt"
        )
        for attempt, times in ended.items():
            if times > 1:
                yield f"{row['uuid']}: attempt {attempt} has ended {times} times"


def a_chosen_host_suits_its_request(ledger: Ledger) -> Iterator[str]:
    """I7, as far as the records tell: a claimed host was neither ignored nor tried before, is the one asked for, and
    could take the flavor if it were empty. Free room at the moment of the choice is not on record; I1 stands for it."""
    nodes = {(node["host"], node["hypervisor_hostname"]): node for node in ledger.nodes}
    for row in ledger.instances:
        spec = ledger.spec(row)
        # An unshelved instance may return to a host that it was on before.
        ended = [event for event in ledger.events.get(row["uuid"], ()) if event["event"] == "attempt"]
        tried = [event["host"] for event in ended if event["attempt"] > row["earlier_attempts"]]
        for host, times in collections.Counter(tried).items():
            if times > 1:
                yield f"{row['uuid']} was tried on {host} {times} times"
        if row["host"] is None:
            continue
        if row["host"] in spec.get("ignore_hosts", ()):
            yield f"{row['uuid']} is on {row['host']}, which its request ignores"
        wanted = spec.get("scheduler_hints", {}).get("requested_host")
        if wanted and row["host"] != wanted:
            yield f"{row['uuid']} is on {row['host']}, asked for was {wanted}"
        node = nodes.get((row["host"], row["node"]))
        if node and row["memory_mb"] > (node["memory_mb"] - node["reserved_memory_mb"]) * node["ram_allocation_ratio"]:
            yield f"{row['uuid']} does not fit on {row['host']} even when it is empty"


def group_policies_hold(ledger: Ledger) -> Iterator[str]:
    """I8: affinity on one host, anti-affinity on as many as there are members.

    An affinity group that is evacuated leaves its dead host one by one.
    """
    left: dict[str, set[str]] = collections.defaultdict(set)
    for record in ledger.migrations:
        if record["migration_type"] == "evacuation":
            left[record["instance_uuid"]].add(record["source_compute"])
    by_uuid = {row["uuid"]: row for row in ledger.live}
    for uuid, members in ledger.members.items():
        group = ledger.groups[uuid]
        hosts = collections.Counter(
            by_uuid[member]["host"] for member in members if member in by_uuid and by_uuid[member]["host"]
        )
        evacuated = {host for member in members for host in left[member]}
        if group["policy"] == "affinity" and len(hosts.keys() - evacuated) > 1:
            yield f"group {group['name']} (affinity) is on {sorted(hosts)}"
        if group["policy"] == "anti-affinity" and any(n > group["max_server_per_host"] for n in hosts.values()):
            yield f"group {group['name']} (anti-affinity) has {dict(hosts)}"


CHECKS: list[tuple[str, Check]] = [
    ("I1", nothing_is_overcommitted),
    ("I2", an_instance_is_on_one_host),
    ("I3", every_build_ends_in_time),
    ("I4", no_claim_without_a_live_instance),
    ("I5", usage_is_the_sum),
    ("I6", attempts_are_bounded),
    ("I7", a_chosen_host_suits_its_request),
    ("I8", group_policies_hold),
    ("I13", storage.pools_count_their_volumes),
    ("I13", storage.snapshots_have_their_volume),
    ("I14", storage.every_volume_ends_in_time),
    ("I16", storage.attachments_agree_with_volumes),
    ("I17", networks.addresses_are_held_once),
]
