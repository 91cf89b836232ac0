# SPDX-License-Identifier: Apache-2.0
"""Options for tests, from no file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oslo_config import cfg
from oslo_db import options as database_options

from fleet import conf as fleet_conf
from fleet.db.connection import options as limits
from scheduler.compute import conf as scheduler_conf


def configuration(*declare: Callable[[cfg.ConfigOpts], object], **overrides: Any) -> cfg.ConfigOpts:
    """The options that ``declare`` registers, with their defaults but for ``overrides``."""
    conf = cfg.ConfigOpts()
    for register_opts in declare:
        register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in overrides.items():
        conf.set_override(name, value)
    return conf


def of_database(url: str, **overrides: Any) -> cfg.ConfigOpts:
    """The options of a database; ``overrides`` are of the group ``database``."""
    conf = configuration(lambda conf: database_options.set_defaults(conf, connection=url), limits.register_limits)
    for name, value in overrides.items():
        conf.set_override(name, value, "database")
    return conf


def of_migration(url: str) -> cfg.ConfigOpts:
    """As ``fleet-manage`` has them: a migration may take longer than a daemon waits, and so may another one before it."""
    return of_database(url, statement_timeout=0)


def of_scheduler(**overrides: Any) -> cfg.ConfigOpts:
    return configuration(fleet_conf.register_opts, scheduler_conf.register_opts, **overrides)
