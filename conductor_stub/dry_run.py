# SPDX-License-Identifier: Apache-2.0
"""What the scheduler would be asked, for a request that is not made and for an instance that is there already."""

from __future__ import annotations

import types
from typing import Any

from conductor_stub.build import Builder
from conductor_stub.intake import Intake
from fleet.context import RequestContext
from fleet.db import instances
from fleet.db.engine import Database
from fleet.objects import BuildRequest


class DryRun:
    """Answers are ``request_spec`` and ``filter_properties``, to be sent to the scheduler's ``explain``."""

    def __init__(self, database: Database, intake: Intake, builder: Builder) -> None:
        self._database = database
        self._intake = intake
        self._builder = builder

    def request_of(self, name: str) -> dict[str, Any]:
        """As for the first attempt to place this instance now. :raises errors.NotFound: errors.Conflict:"""
        return self._builder.scheduling_request([self._database.read(instances.find, name)])

    def request_for(self, context: RequestContext, request: BuildRequest) -> dict[str, Any]:
        """As if this were built. :raises errors.InvalidInput: errors.NotFound: as ``create`` does"""
        stored, rows = self._intake.plan(context, request)
        planned = [types.SimpleNamespace(**instances.NOT_PLACED, **{**row, **stored}) for row in rows]
        return self._builder.scheduling_request(planned)
