# SPDX-License-Identifier: Apache-2.0
"""Check whether a scheduler can start with a configuration (``fleet-manage upgrade check``, ``fleet doctor``)."""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from fleet.checks import findings
from scheduler import conf as scheduler_conf
from scheduler import driver_loading
from scheduler.loading import load_pipeline


def check(files: Sequence[str]) -> list[findings.Finding]:
    """:param files: configuration files"""
    return [findings.of_service("fleet-scheduler", files, scheduler_conf.register_opts, _try_out)]


def _try_out(conf: cfg.ConfigOpts) -> str:
    pipeline = load_pipeline(conf)
    driver = driver_loading.load_driver_class(conf).__name__
    driver_loading.load_host_manager_class(conf)
    return f"{driver} loads with {len(pipeline.filters)} filters and {len(pipeline.weighers)} weighers"
