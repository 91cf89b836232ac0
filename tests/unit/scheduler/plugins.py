# SPDX-License-Identifier: Apache-2.0
"""A user's own filter as such files look, things that are none, and a configuration to name them in."""

from __future__ import annotations

from oslo_config import cfg
from oslo_log import log as logging

import fleet.conf
from scheduler.compute import conf as scheduler_conf
from scheduler.compute import filters

LOG = logging.getLogger(__name__)
A_NUMBER = 42


class SpecifiedHostFilter(filters.BaseHostFilter):
    def __init__(self):
        LOG.info("SpecifiedHostFilter is initialized!")

    def host_passes(self, host_state, filter_properties):
        requested_host = filter_properties.get("scheduler_hints", {}).get("requested_host", None)
        if requested_host:
            return requested_host == host_state.host
        return True


class ConfiguredHostFilter(filters.BaseHostFilter):
    """Only the host that the operator's JSON file names."""

    def host_passes(self, host_state, filter_properties):
        return host_state.host == filter_properties["config_options"]["only"]


class RaisingFilter(filters.BaseHostFilter):
    """Raises if it is asked to."""

    def host_passes(self, host_state, filter_properties):
        if (filter_properties.get("scheduler_hints") or {}).get("raise"):
            raise LookupError("asked for")
        return True


class UnmakeableFilter(filters.BaseHostFilter):
    """Cannot be made."""

    def __init__(self):
        raise LookupError("no licence")

    def host_passes(self, host_state, filter_properties):
        return True


class _Hidden(filters.BaseHostFilter):
    pass


class NotAFilter:
    pass


def configuration(*files: object, **overrides: object) -> cfg.ConfigOpts:
    """The scheduler's options with some values set, from ``files`` only."""
    conf = cfg.ConfigOpts()
    fleet.conf.register_opts(conf)
    scheduler_conf.register_opts(conf)
    conf([], default_config_files=[str(path) for path in files], default_config_dirs=[])
    for name, value in overrides.items():
        conf.set_override(name, value)
    return conf
