# SPDX-License-Identifier: Apache-2.0
"""The RPC surface of tolerances, namespace ``operator``: what the fleet promises to survive.

Called by :mod:`conductor_stub.operators.wiring`.
"""

from __future__ import annotations

import functools
from typing import Literal

from conductor_stub.steps.acts import Acts
from fleet.clock import Clock, utcnow
from fleet.context import RequestContext
from fleet.db.engine.database import Database
from fleet.db.operations import tolerances
from fleet.json_codec import JSONObject
from fleet.objects import fields
from fleet.objects.answers.tolerances import ToleranceView
from fleet.objects.tolerance import Tolerance
from fleet.rpc.endpoint import endpoint, served


class ToleranceManager:
    target = served("conductor", "operator")

    def __init__(
        self,
        database: Database,
        clock: Clock = utcnow,
        of_fleet: Tolerance | None = None,
        default_zone: str = "nova",
    ) -> None:
        """
        :param of_fleet: what the options promise for the fleet
        :param default_zone: zone of the hosts that are in no aggregate with a zone
        """
        self._database = database
        self._default_zone = default_zone
        self._of_fleet = of_fleet
        self._clock = clock
        self._acts = Acts(database, clock)

    @endpoint
    def list_tolerances(self, context: RequestContext) -> list[ToleranceView]:
        return [each.to_wire() for each in self._database.read(tolerances.promised, self._of_fleet)]

    @endpoint
    def set_tolerance(self, context: RequestContext, tolerance: JSONObject) -> ToleranceView:
        """Set the promise of a scope, in place of an earlier one.

        :raises errors.InvalidInput: errors.NotFound: no such zone or aggregate
        """
        wanted = Tolerance.from_wire(tolerance)
        zone = self._default_zone
        shown = functools.partial(tolerances.shown, kind=wanted.kind, name=wanted.name)
        work = tolerances.set_one
        written = self._acts.write(context, "tolerance.set", wanted.scope, shown, work, wanted, self._clock(), zone)
        return written.to_wire()

    @endpoint
    def unset_tolerance(
        self, context: RequestContext, kind: Literal["fleet", "zone", "aggregate"], name: fields.Text = ""
    ) -> None:
        """:raises errors.NotFound: no such scope, or it promises nothing"""
        scope = f"{kind} {name}".strip()
        shown = functools.partial(tolerances.shown, kind=kind, name=name)
        self._acts.write(context, "tolerance.unset", scope, shown, tolerances.unset, kind, name)
