# SPDX-License-Identifier: Apache-2.0
"""The options of a scheduler for virtual machines: those of all schedulers, and those of its filters and weighers.

Registered by :mod:`scheduler.main`, and by plans that decide on a copy of the fleet.
"""

from __future__ import annotations

from oslo_config import cfg

from scheduler import conf as scheduler_conf
from scheduler.compute import filter_options, weigher_options


def register_opts(conf: cfg.ConfigOpts) -> None:
    scheduler_conf.register_opts(conf)
    for group, opts in [*filter_options.list_opts(), *weigher_options.list_opts()]:
        conf.register_opts(opts, group=None if group == "DEFAULT" else group)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return all options, for oslo-config-generator."""
    return [*scheduler_conf.list_opts(), *filter_options.list_opts(), *weigher_options.list_opts()]
