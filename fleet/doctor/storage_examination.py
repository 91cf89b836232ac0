# SPDX-License-Identifier: Apache-2.0
"""The checks of ``fleet doctor`` on storage backends, pools and volumes. :mod:`fleet.doctor.examination` runs them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fleet import pool_capacity
from fleet.capacity import shown
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.client.connection import Record
from fleet.json_codec import JSONMapping
from fleet.objects import host_report, location


def examine(
    backends: Sequence[Record], pools: Sequence[Record], ledger: Mapping[str, object] | None
) -> Iterator[Finding]:
    """:param backends: the services of storage backends
    :param ledger: ``volumes`` of the conductor's answer; None: the conductor is too old for it
    """
    yield from _backends(backends, pools)
    yield from _space(pools)
    if ledger is not None:
        yield from _volumes(ledger)


def _backends(backends: Sequence[Record], pools: Sequence[Record]) -> Iterator[Finding]:
    """A backend that is down is named among the services, as any other daemon."""
    reporting = {location.extract_host(each["name"]) for each in pools}
    mute = [each["host"] for each in backends if each["state"] == "up" and each["host"] not in reporting]
    disabled = [
        f"{each['host']} ({each['disabled_reason'] or 'no reason'})"
        for each in backends
        if each.get("status") == "disabled" and not (each["disabled_reason"] or "").startswith(host_report.AUTO)
    ]
    if mute:
        fix = "Read the agent's log: its driver finds no pools, or its reports are refused."
        yield findings.bad("backends", f"these report no pools: {findings.few(mute)}", fix)
    if disabled:
        fix = "Run 'fleet service enable BACKEND fleet-volume' when they shall take volumes again."
        yield findings.doubtful("backends", f"these are disabled and get no volumes: {findings.few(disabled)}", fix)
    if not mute and not disabled:
        yield findings.good("backends", f"all {len(backends)} report {len(pools)} pools")


def _space(pools: Sequence[Record]) -> Iterator[Finding]:
    full = [each["name"] for each in pools if each["total_volumes"] and _is_full(each)]
    over = [_promised(each) for each in pools if _over(each) > 0]
    if full:
        fix = "Add space, or migrate or delete volumes: writes to thin volumes on them fail."
        yield findings.bad("pools", f"no free space is left on {findings.few(full)}", fix)
    if over:
        fix = "The pool has shrunk, or its over-subscription was lowered. It gets no volumes until it has room."
        yield findings.doubtful("pools", f"more is promised than allowed: {findings.few(over)}", fix)
    if not full and not over:
        yield findings.good("pools", "all have free space for what they have promised")


def _is_full(pool: Record) -> bool:
    """Return True if the pool was full at its last report. Later claims do not count: thin volumes may not fill them."""
    free = pool["capabilities"].get("free_capacity_gb", pool["free_capacity_gb"])
    return isinstance(free, int | float) and free <= 0


def _over(pool: Record) -> float:
    """GiB that are promised beyond what is allowed."""
    total = pool["total_capacity_gb"]
    if total is None:
        return 0.0
    usable = total - math.floor(total * pool["reserved_percentage"] / 100)
    ratio = pool["over_subscription"] if pool["thin_provisioning_support"] else 1.0
    if pool["max_over_subscription_ratio"] == pool_capacity.AUTO:
        # It follows what the pool holds.
        return 0.0
    return float(pool["provisioned_capacity_gb"] - usable * ratio)


def _promised(pool: Record) -> str:
    return (
        f"{pool['name']} ({shown(pool['provisioned_capacity_gb'])} GiB of {shown(pool['total_capacity_gb'])}, reserved "
        f"{pool['reserved_percentage']} %, over-subscription {pool['over_subscription']:g})"
    )


def _volumes(ledger: JSONMapping) -> Iterator[Finding]:
    if ledger["overdue"]:
        fix = "No conductor sweeps volumes: one of them must have volume in conductor_domains; read their logs."
        yield findings.bad("volumes", f"{ledger['overdue']} steps are overdue, and no conductor has acted on them", fix)
    stuck = [f"{each['name']} on {each['host']} ({each['status']})" for each in ledger["stuck"]]
    if stuck:
        fix = "See 'fleet trace VOLUME'. When the backend is well again, extend or delete the volume again."
        yield findings.doubtful("volumes", f"their backends have not done their part: {findings.few(stuck)}", fix)
    if not ledger["overdue"] and not stuck:
        yield findings.good("volumes", "no step is overdue, and no backend has failed to extend or delete one")
