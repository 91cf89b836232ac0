# SPDX-License-Identifier: Apache-2.0
"""The options that a configuration file of ours may have."""

from __future__ import annotations

import collections
import importlib.metadata

from oslo_config import cfg

LIBRARIES = ("oslo.db", "oslo.log", "oslo.messaging", "oslo.policy")


def by_group(libraries: tuple[str, ...] = ()) -> dict[str, dict[str, cfg.Opt]]:
    """Options by group and name: ours, and those of ``libraries``."""
    found: dict[str, dict[str, cfg.Opt]] = collections.defaultdict(dict)
    for entry in importlib.metadata.entry_points(group="oslo.config.opts"):
        if entry.name.split(".")[0] == "fleet" or entry.name in libraries:
            for group, options in entry.load()():
                found[getattr(group, "name", group) or "DEFAULT"].update({option.dest: option for option in options})
    return found
