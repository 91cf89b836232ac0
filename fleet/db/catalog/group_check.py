# SPDX-License-Identifier: Apache-2.0
"""The check that a claim keeps the policy of a server group and its rules over labels of hosts.

Claims of builds and of moves run
it, under the lock of the group: schedulers may have decided at the same time.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Mapping, Sequence

from fleet import errors
from fleet.db.catalog import groups
from fleet.db.catalog.groups import PlacedMember
from fleet.db.engine.database import Transaction
from fleet.db.hosts import labels
from fleet.db.tables.catalog import GroupRow
from fleet.json_codec import JSONMapping
from fleet.objects import group_rule, instance_group
from fleet.objects.group_rule import GroupRule


@dataclasses.dataclass(frozen=True)
class Arrival:
    """A host that claims a member. :param limits: those of the scheduler's choice, with the limits of a spread"""

    host: str
    limits: JSONMapping = dataclasses.field(default_factory=dict)


def check(tx: Transaction, group_uuid: str, arrivals: Mapping[str, Arrival], dead_hosts: Collection[str] = ()) -> None:
    """Check that hosts may take instances.

    :param arrivals: by the uuid of the instance; each is checked with those before it counted as members
    :param dead_hosts: members that wait there for their evacuation do not bind an affinity group
    :raises errors.GroupAffinityViolation:
    """
    group = groups.lock(tx, group_uuid)
    if group is None:
        return
    placed = [row for row in groups.members(tx, group_uuid) if row.host is not None and row.uuid not in arrivals]
    rules = [rule for rule in groups.rules_of(group) if rule.is_hard]
    if group.policy == instance_group.AFFINITY or any(rule.policy == group_rule.AFFINITY for rule in rules):
        # As the scheduler has seen them, for every rule.
        placed = [row for row in placed if row.host not in dead_hosts]
    _check_policy(group, placed, arrivals)
    if rules:
        among = {*(row.host for row in placed if row.host), *(each.host for each in arrivals.values())}
        known = labels.of_hosts(tx, among)
        for rule in rules:
            _check_rule(group, rule, known, placed, arrivals)


def _check_policy(group: GroupRow, placed: Sequence[PlacedMember], arrivals: Mapping[str, Arrival]) -> None:
    others = [row.host for row in placed]
    # It is not known yet where a member that is being moved will end, so no instance can join it.
    moving = len(placed) > len({row.uuid for row in placed})
    for instance_uuid, arrival in arrivals.items():
        host = arrival.host
        crowded = group.policy == instance_group.ANTI_AFFINITY and others.count(host) >= group.max_server_per_host
        apart = group.policy == instance_group.AFFINITY and others and (moving or host not in others)
        if crowded or apart:
            raise _violation(instance_uuid, host, group.policy, group)
        others.append(host)


def _check_rule(
    group: GroupRow,
    rule: GroupRule,
    known: Mapping[str, Mapping[str, str]],
    placed: Sequence[PlacedMember],
    arrivals: Mapping[str, Arrival],
) -> None:
    """:param known: labels by host"""

    def domain_of(host: str | None) -> str | None:
        return known.get(host or "", {}).get(rule.label)

    # A member that moves inside a domain is one member of it.
    there = {(row.uuid, domain_of(row.host)) for row in placed}
    moving = len(there) > len({uuid for uuid, _domain in there})
    crowd = collections.Counter(domain for _uuid, domain in there)
    for instance_uuid, arrival in arrivals.items():
        domain = domain_of(arrival.host)
        most = arrival.limits.get(f"{group_rule.LIMIT}{rule.label}")
        if not _keeps(rule, domain, crowd, moving, most):
            raise _violation(instance_uuid, arrival.host, str(rule), group)
        crowd[domain] += 1


def _keeps(
    rule: GroupRule, domain: str | None, crowd: collections.Counter[str | None], moving: bool, most: float | None
) -> bool:
    """:param most: members that the domain may have, by the scheduler that has chosen the host for a spread"""
    if rule.policy == group_rule.MUST_NOT:
        return domain not in rule.values
    if rule.policy == group_rule.ANTI_AFFINITY:
        return domain is None or crowd[domain] < rule.max_members
    if domain is None:
        return False
    if rule.policy == group_rule.MUST:
        return domain in rule.values
    if rule.policy == group_rule.AFFINITY:
        return not crowd or (not moving and crowd[domain] > 0)
    # A host that was forced, or chosen by a scheduler of an earlier release, has no limit.
    return most is None or crowd[domain] + 1 <= most


def _violation(instance_uuid: str, host: str, policy: str, group: GroupRow) -> errors.GroupAffinityViolation:
    return errors.GroupAffinityViolation(instance_uuid=instance_uuid, host=host, policy=policy, group_uuid=group.uuid)
