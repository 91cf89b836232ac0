# SPDX-License-Identifier: Apache-2.0
"""Wires the scheduler together as a shadow of nova-scheduler. Called by :mod:`scheduler.main` with ``--shadow``."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence

from oslo_config import cfg

from fleet import errors, service
from fleet.clock import epoch_s, utcnow
from fleet.db.nova import api_queries
from fleet.db.nova.database import NovaDatabase
from fleet.rpc.rabbit import broker
from fleet.rpc.rabbit.copies import Copies
from fleet.service import probes
from scheduler.nova import service as nova
from scheduler.nova.polling import Polled
from scheduler.nova.shadow.shadow import Shadow
from scheduler.why.shadow.ledger import ShadowLedger

#: Comparing costs less than writing the report.
_LOOK_S, _SAVE_S = 2.0, 10.0


def check(conf: cfg.ConfigOpts) -> None:
    """:raises errors.ConfigError: the shadow could not work with this configuration"""
    if not broker.is_there(conf):
        raise errors.ConfigError(option="[nova] transport_url", reason="must be that of RabbitMQ for --shadow")
    folder = _path(conf).parent
    if not os.access(folder, os.W_OK):
        raise errors.ConfigError(option="[shadow] report_file", reason=f"is in {folder}, which cannot be written")


def process(conf: cfg.ConfigOpts, binary: str, number: int) -> service.Process:
    """Return the one worker of a shadow."""
    api = nova.open_api(conf)

    def reach_broker() -> None:
        if not probes.broker_reachable(conf):
            raise RuntimeError("no node of the broker answers")

    through = {
        probes.BROKER: reach_broker,
        probes.DATABASE: lambda: api.read(api_queries.ping),
        probes.CLOCK: lambda: None,
        **nova.databases_and_placement(conf, api),
    }
    return probes.process(conf, binary, number, through, lambda: servers(conf, api))


def servers(conf: cfg.ConfigOpts, api: NovaDatabase) -> Sequence[service.Runnable]:
    driver, placing, _placement = nova.deciding(conf, api)
    ledger = ShadowLedger(_path(conf), conf.nova.shadow_patience, lambda: epoch_s(utcnow()))
    shadow = Shadow(driver, placing, ledger)
    host_manager = driver.host_manager
    assert isinstance(host_manager, Polled)
    compare_s = conf.scheduler_compare_period
    queue = f"fleet-shadow.{conf.host}.{os.getpid()}"
    return [
        service.Periodic("poll", host_manager.poll, conf.nova.poll_period),
        Copies(conf, conf.nova.exchange, nova.TOPIC, queue, shadow.take),
        service.Periodic("shadow", shadow.look, _LOOK_S, initial_s=_LOOK_S),
        _Report(ledger),
        service.Periodic("compare", host_manager.compare, compare_s, initial_s=compare_s),
    ]


class _Report(service.Periodic):
    """Writes the report now and then, and once more at the end."""

    def __init__(self, ledger: ShadowLedger) -> None:
        super().__init__("report", ledger.save, _SAVE_S, initial_s=_SAVE_S)
        self._ledger = ledger

    def wait(self) -> None:
        super().wait()
        self._ledger.save()


def _path(conf: cfg.ConfigOpts) -> pathlib.Path:
    return pathlib.Path(conf.shadow.report_file)
