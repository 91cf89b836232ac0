# SPDX-License-Identifier: Apache-2.0
"""The options that a configuration file of ours may have."""

from __future__ import annotations

import collections
import importlib.metadata

from keystoneauth1 import loading
from oslo_config import cfg

LIBRARIES = ("keystonemiddleware.auth_token", "oslo.db", "oslo.log", "oslo.messaging", "oslo.policy")


def by_group(libraries: tuple[str, ...] = ()) -> dict[str, dict[str, cfg.Opt]]:
    """Options by group and name: ours, and those of ``libraries``."""
    found: dict[str, dict[str, cfg.Opt]] = collections.defaultdict(dict)
    for entry in importlib.metadata.entry_points(group="oslo.config.opts"):
        if entry.name.split(".")[0] == "fleet" or entry.name in libraries:
            for group, options in entry.load()():
                found[getattr(group, "name", group) or "DEFAULT"].update({option.dest: option for option in options})
    # The section has those of the plugin, too, with which the service proves who it is.
    proof = [*loading.get_auth_common_conf_options(), *loading.get_auth_plugin_conf_options("password")]
    found["keystone_authtoken"].update({option.dest: option for option in proof})
    return found
