# SPDX-License-Identifier: Apache-2.0
"""Writes the steps that hosts report: all that wait in one transaction, each judged as if it were alone."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_log import log as logging

from conductor_stub.builds import claims
from conductor_stub.builds.claims import Recorded, StepReport
from conductor_stub.steps.limits import StepContext, StepLimits
from fleet import errors
from fleet.clock import Clock
from fleet.db.engine import Database

LOG = logging.getLogger(__name__)


class StepWriter:
    """For :class:`conductor_stub.steps.group_commit.GroupCommit`."""

    def __init__(self, database: Database, limits: StepLimits, clock: Clock) -> None:
        self._database = database
        self._limits = limits
        self._clock = clock

    def write_all(self, reports: Sequence[StepReport]) -> list[Recorded | Exception]:
        """What became of each step, or its error.

        If the transaction of all is refused, each is written alone: one step may fail no other.

        :raises errors.DatabaseUnavailable: for all of them; it is unknown what was written
        """
        if len({each.step.instance_uuid for each in reports}) == len(reports):
            try:
                return list(self._write(reports))
            except errors.DatabaseUnavailable:
                raise
            except Exception as failure:
                if len(reports) == 1:
                    return [failure]
                LOG.debug("Of %d steps at least one is refused (%s): each is written alone", len(reports), failure)
        return [self._write_alone(each) for each in reports]

    def _write_alone(self, report: StepReport) -> Recorded | Exception:
        try:
            (answer,) = self._write([report])
        except errors.DatabaseUnavailable:
            raise
        except Exception as failure:
            return failure
        return answer

    def _write(self, reports: Sequence[StepReport]) -> Sequence[Recorded | errors.FleetError]:
        return self._database.write(claims.transaction(reports, StepContext(self._limits, self._clock())))
