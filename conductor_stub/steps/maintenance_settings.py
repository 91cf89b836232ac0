# SPDX-License-Identifier: Apache-2.0
"""Parses the section [maintenance] of the configuration. :mod:`conductor_stub.parts` reads it once, at start."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence

from oslo_config import cfg

from conductor_stub.upkeep_conf import MAINTENANCE
from fleet import errors


@dataclasses.dataclass(frozen=True)
class MaintenanceSettings:
    """:param hooks: by name, program and arguments. The options of the same names describe them."""

    hooks: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    hook_timeout_s: float = 1800
    return_timeout_s: float = 1800

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> MaintenanceSettings:
        """:raises errors.ConfigError: a command cannot be read"""
        group = conf[MAINTENANCE]
        hooks = {}
        for name, command in group.hooks.items():
            try:
                hooks[name] = shlex.split(command)
            except ValueError as broken:
                raise errors.ConfigError(
                    option="[maintenance] hooks", reason=f"has the command {name}, which cannot be read: {broken}"
                ) from None
            if not hooks[name]:
                raise errors.ConfigError(option="[maintenance] hooks", reason=f"has no command for {name}")
        return cls(hooks=hooks, hook_timeout_s=group.hook_timeout, return_timeout_s=group.return_timeout)
