# SPDX-License-Identifier: Apache-2.0
"""Keeps the scheduler's row in nova's list of services up. ``service`` runs it in the first worker."""

from __future__ import annotations

from oslo_log import log as logging

from fleet import errors
from fleet.db.nova.own_service import OwnService

LOG = logging.getLogger(__name__)


class Heartbeat:
    """:param row: of the scheduler itself"""

    def __init__(self, row: OwnService) -> None:
        self._row = row
        self._is_failing = False

    def beat(self) -> None:
        """Write one heartbeat. A failure is logged once, and harms no request: the row then counts as down."""
        try:
            self._row.beat()
        except errors.DatabaseError as away:
            if not self._is_failing:
                LOG.warning("The scheduler's row in nova's list of services cannot be written: %s", away.message)
            self._is_failing = True
            return
        if self._is_failing:
            LOG.info("The scheduler's row in nova's list of services is written again")
        self._is_failing = False
