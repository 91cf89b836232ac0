# SPDX-License-Identifier: Apache-2.0
"""Checks that a conductor could start with a configuration (``fleet-manage upgrade check``, ``fleet doctor``).

Both programs find it by the entry point ``fleet.checks``.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import domains, tolerance_conf
from fleet.checks import findings
from fleet.hardware.aliases import parse_aliases


def check(files: Sequence[str]) -> list[findings.Finding]:
    """:param files: configuration files"""
    return [findings.of_service("fleet-conductor", files, conductor_conf.register_opts, _try_out)]


def _try_out(conf: cfg.ConfigOpts) -> str:
    RecoverySettings.from_conf(conf)
    tolerance_conf.of_fleet(conf)
    served = " and ".join(domains.require(conf, "conductor_domains"))
    return f"its options are good; it serves {served}; {len(parse_aliases(conf.pci.alias))} PCI aliases"
