# SPDX-License-Identifier: Apache-2.0
"""Check whether a scheduler can start with a configuration (``fleet-manage upgrade check``, ``fleet doctor``).

Both programs find it by the entry point ``fleet.checks``, and the scheduler calls it at start.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from fleet import domains, tolerance_conf
from fleet.checks import findings
from scheduler.compute import conf as compute_conf
from scheduler.compute.drivers import driver_loading, shadow
from scheduler.compute.drivers.loading import load_pipeline
from scheduler.volumes import conf as volume_conf
from scheduler.volumes import service as volumes


def check(files: Sequence[str]) -> list[findings.Finding]:
    """:param files: configuration files"""
    return [findings.of_service("fleet-scheduler", files, _register, _try_out)]


def check_domains(conf: cfg.ConfigOpts) -> list[str]:
    """Return what a scheduler with this configuration loads. :raises errors.ConfigError: it cannot start"""
    checked = {domains.COMPUTE: _of_machines, domains.VOLUME: volumes.check}
    return [checked[domain](conf) for domain in domains.require(conf, "scheduler_domains")]


def _of_machines(conf: cfg.ConfigOpts) -> str:
    pipeline = load_pipeline(conf)
    driver = driver_loading.load_driver_class(conf).__name__
    driver_loading.load_host_manager_class(conf)
    tolerance_conf.of_fleet(conf)
    return f"{driver} loads with {len(pipeline.filters)} filters and {len(pipeline.weighers)} weighers"


def _register(conf: cfg.ConfigOpts) -> None:
    compute_conf.register_opts(conf)
    volume_conf.register_opts(conf)


def _try_out(conf: cfg.ConfigOpts) -> str:
    found = "; ".join(check_domains(conf))
    shadow.check(conf)
    return found
