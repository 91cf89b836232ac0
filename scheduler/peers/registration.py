# SPDX-License-Identifier: Apache-2.0
"""Keeps the scheduler's own service record: registers it, then sends heartbeats. Called by :mod:`scheduler.main`."""

from __future__ import annotations

import os
import socket

import oslo_messaging
from oslo_log import log as logging

from fleet import errors
from fleet.clock.skew import ClockSkew
from fleet.context import new_context
from fleet.rpc import versions
from fleet.rpc.clients import ConductorAPI
from fleet.rpc.pins import Pins

LOG = logging.getLogger(__name__)
BINARY = "fleet-scheduler"
TOPIC = "scheduler"


class Registration:
    """Registers the scheduler, and sends its heartbeats. A failed call is repeated at the next beat; placing goes on."""

    def __init__(
        self,
        conductor: ConductorAPI,
        host: str,
        skew: ClockSkew | None = None,
        pins: Pins | None = None,
        topic: str = TOPIC,
    ) -> None:
        """:param pins: learn the versions that the oldest live services speak
        :param topic: of the scheduler; only schedulers of one topic divide the hosts
        """
        self._topic = topic
        self._skew = skew or ClockSkew(0)
        self._pins = pins
        self._conductor = conductor
        self._host = host
        self._registered = False
        self._lost = False

    def beat(self) -> None:
        try:
            self._report() if self._registered else self._register()
        except errors.ForeignLedger as foreign:
            if not self._lost:
                LOG.error(
                    "%s This scheduler is not registered there, and answers none of its requests.", foreign.message
                )
            self._lost = True
            return
        except (oslo_messaging.MessagingException, errors.DatabaseError) as lost:
            if not self._lost:
                LOG.warning("The conductor does not answer, heartbeats are lost: %s", lost)
            self._lost = True
            return
        if self._lost:
            LOG.info("The conductor answers again")
        self._lost = False

    def _register(self) -> None:
        record = {
            "host": self._host,
            "binary": BINARY,
            "topic": self._topic,
            "pid": os.getpid(),
            "hostname": socket.gethostname(),
            **versions.spoken(self._topic),
        }
        self._conductor.register_services(new_context(), services=[record])
        self._registered = True

    def _report(self) -> None:
        """Any number of workers keep one record alive; one that is gone is made anew at the next beat."""
        answer = self._conductor.report_state(
            new_context(), BINARY, [self._host], "", **versions.spoken(self._topic), clock_skew_s=self._skew.reported_s
        )
        self._registered = not answer["superseded"]
        if self._pins is not None:
            self._pins.learn(answer.get("versions"))
