# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of quotas, namespace ``operator``. :mod:`fleet.rpc.clients.operator.catalog` calls it."""

from __future__ import annotations

from collections.abc import Callable

from conductor_stub.steps.acts import Acts
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.catalog import quotas
from fleet.db.engine.database import Database
from fleet.objects import fields
from fleet.objects.answers.catalog import OwnLimits, QuotaView
from fleet.objects.quota import RESOURCES, Limit, Quota, Resource
from fleet.rpc.endpoint import endpoint, served


class QuotaManager:
    """:param default_quota: of projects without one of their own"""

    target = served("conductor", "operator")

    def __init__(self, database: Database, default_quota: Quota, clock: Clock = utcnow) -> None:
        self._database = database
        self._acts = Acts(database, clock)
        self._default_quota = default_quota

    @endpoint
    def list_quotas(self, context: RequestContext) -> list[OwnLimits]:
        """The projects that have limits of their own, by name: ``project_id``, ``limits`` and ``own``."""
        found = self._database.read(quotas.list_all)
        return [self._limits(name, own) for name, own in found.items()]

    @endpoint
    def show_quota(self, context: RequestContext, project_id: fields.Name) -> QuotaView:
        """Return ``project_id``, ``limits`` (-1 is unlimited), ``own`` (those set for the project), ``default`` and
        ``used``. A project that is in no row has the defaults and uses nothing.
        """
        own, used = self._database.read(quotas.show, project_id)
        counted = {name: used[name] for name in RESOURCES}
        default = self._default_quota.to_wire()
        return {**self._limits(project_id, own), "default": default, "used": counted}

    @endpoint
    def set_quota(
        self, context: RequestContext, project_id: fields.Name, limits: dict[Resource, Limit | None]
    ) -> QuotaView:
        """Change limits of a project. What it has above them stays. Return what :meth:`show_quota` does.

        :param limits: -1 is unlimited, None returns to the default; others stay
        """
        asked = {str(name): limit for name, limit in limits.items()}
        self._write(context, "quota.set", project_id, quotas.change, project_id, asked)
        return self.show_quota(context, project_id=project_id)

    @endpoint
    def delete_quota(self, context: RequestContext, project_id: fields.Name) -> None:
        """Return a project to the defaults, if it has limits of its own."""
        self._write(context, "quota.delete", project_id, quotas.remove, project_id)

    def _write(
        self, context: RequestContext, act: str, project_id: str, work: Callable[..., None], *args: object
    ) -> None:
        self._acts.write(context, act, project_id, lambda tx: quotas.own(tx, project_id), work, *args)

    def _limits(self, project_id: str, own: dict[str, int]) -> OwnLimits:
        return {
            "project_id": project_id,
            "limits": self._default_quota.with_own(own).to_wire(),
            "own": own,
        }
