# SPDX-License-Identifier: Apache-2.0
"""Checks whether a volume agent could start with a configuration (``fleet-manage upgrade check``, ``fleet doctor``).

Both programs find it by the entry point ``fleet.checks``.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

from fleet.checks import findings
from volume_agent import conf as volume_conf
from volume_agent.backends import backend


def check(files: Sequence[str]) -> list[findings.Finding]:
    """:param files: configuration files"""
    return [findings.of_service("fleet-volume", files, volume_conf.register_opts, _try_out)]


def _try_out(conf: cfg.ConfigOpts) -> str:
    loaded = [type(each.driver).__name__ for each in backend.load(conf)]
    return f"{len(loaded)} backend(s) to serve" + (f": {', '.join(sorted(set(loaded)))}" if loaded else "")
