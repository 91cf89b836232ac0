# SPDX-License-Identifier: Apache-2.0
"""A guest that a host could not remove after an unshelve was given up: no other host starts one before it is gone."""

from __future__ import annotations

from fleet import errors
from fleet.db.engine.database import Transaction
from fleet.db.hosts import services
from fleet.db.instances import instances
from fleet.db.tables.instances import RequestedInstance

#: Key of ``shelved``: the host.
_GUEST_ON = "guest_on"


def note(tx: Transaction, row: RequestedInstance, host: str) -> None:
    """The host has given an unshelve up and could not remove the guest: no other host may start one meanwhile."""
    tx.update(instances.INSTANCES, row.uuid, {"shelved": {**(row.shelved or {}), _GUEST_ON: host}})


def removed(tx: Transaction, row: RequestedInstance, host: str) -> None:
    """The host has removed the guest of a locked row, if it was the one that could not."""
    if row.shelved and row.shelved.get(_GUEST_ON) == host:
        left = {name: value for name, value in row.shelved.items() if name != _GUEST_ON}
        tx.update(instances.INSTANCES, row.uuid, {"shelved": left})


def require_none(tx: Transaction, row: RequestedInstance) -> None:
    """:raises errors.Conflict: a guest of an earlier unshelve may still run"""
    host = (row.shelved or {}).get(_GUEST_ON)
    service = services.get(tx, host, services.COMPUTE) if host else None
    if service is not None and not service.deleted and not service.forced_down:
        reason = (
            f"may still have a guest on host {host}, which could not remove it: restart the agent there, or, if the host "
            f"is certainly off, run 'fleet service force-down {host}'"
        )
        found = errors.Conflict(kind="Instance", name=row.name, reason=reason)
        raise found.hiding(reason="may still have a guest on the host where it was: an administrator can end that")
