# SPDX-License-Identifier: Apache-2.0
"""Parses which hosts are lost: ``any``, a host, or a label. Called by the modules beside it."""

from __future__ import annotations

from collections.abc import Sequence

from fleet import errors
from fleet.client import connection
from fleet.db.feed import domains
from fleet.db.feed.feed import Changes
from fleet.objects.survival import Loss

ANY = "any"


def losses(targets: Sequence[str], by_key: str | None, state: Changes) -> list[Loss]:
    """Return what is lost: each host, or each value of a key, or what is named, together.

    :param targets: ``any``, or hosts and KEY=VALUE
    :param by_key: with ``any``: all hosts of a value of this key at a time
    :raises errors.NotFound: a host, or a value of a key, that there is not
    """
    known = sorted({node.host for node in state.nodes})
    with_guests = {each.host for each in state.instances}
    by = domains.domains(state)
    if list(targets) == [ANY]:
        if by_key is None:
            return [Loss(host, [host]) for host in known if host in with_guests]
        values = sorted(value for key, value in by if key == by_key)
        if not values:
            raise errors.NotFound(kind="Host with label", name=by_key)
        return [Loss(f"{by_key}={value}", by[by_key, value]) for value in values]
    if by_key is not None:
        raise connection.CommandFailed("--by goes with 'any'")
    hosts: list[str] = []
    for target in targets:
        key, _, value = target.partition("=")
        if target in known:
            hosts.append(target)
        elif (key, value) in by:
            hosts += by[key, value]
        else:
            raise errors.NotFound(kind="Host with label" if value else "Host", name=target)
    return [Loss(" ".join(targets), sorted(set(hosts)))]
