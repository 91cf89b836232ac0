# SPDX-License-Identifier: Apache-2.0
"""Checks whether an agent could start with a configuration (``fleet-manage upgrade check``, ``fleet doctor``).

Both programs find it by the entry point ``fleet.checks``.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from compute_agent import conf as agent_conf
from compute_agent import drivers
from compute_agent.monitors import Monitors
from compute_agent.node.inventory import HostPolicy
from fleet.agent import host_names
from fleet.checks import findings


def check(files: Sequence[str]) -> list[findings.Finding]:
    """:param files: configuration files"""
    return [findings.of_service("fleet-compute", files, agent_conf.register_opts, _try_out)]


def _try_out(conf: cfg.ConfigOpts) -> str:
    driver = drivers.driver_class(conf.compute_driver).__name__
    Monitors.from_conf(conf)
    HostPolicy.from_conf(conf)
    hosts = host_names.expand(conf.hosts or [conf.host])
    return f"{driver} loads; {len(hosts)} host(s) to serve"
