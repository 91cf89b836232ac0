# SPDX-License-Identifier: Apache-2.0
"""Parses the section [recovery] of the configuration. :mod:`conductor_stub.parts` reads it once, at start."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence

from oslo_config import cfg

from conductor_stub.upkeep_conf import FENCE_COMMAND, FENCE_NONE, FENCE_STORAGE, RECOVERY
from fleet import errors

#: Texts of the step of a recovery that would fence, if no fence runs.
RISKS = {
    FENCE_STORAGE: "not fenced: the storage of the guests refuses a second writer ([recovery] fence = storage)",
    FENCE_NONE: "NOT fenced: a guest whose host is only cut off runs twice from now on, and may ruin its data "
    "([recovery] fence = none)",
}


@dataclasses.dataclass(frozen=True)
class RecoverySettings:
    """The options of the same names describe them.

    :param fence_command: program and arguments; so are the values of ``fence_commands``
    """

    enabled: bool = False
    wait_time_s: float = 120
    fence: str = FENCE_COMMAND
    fence_command: Sequence[str] = ()
    fence_commands: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    fence_timeout_s: float = 60
    fence_attempts: int = 3
    largest_share: float = 0.3
    domain_label: str | None = None
    parallel: int = 10

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> RecoverySettings:
        """:raises errors.ConfigError: recoveries are enabled without a fence, or the name of a fence is taken"""
        group = conf[RECOVERY]
        command = _split(group.fence_command or "", "fence_command")
        named = {name: _split(text, f"fence_commands ({name})") for name, text in group.fence_commands.items()}
        for name in sorted(named.keys() & {FENCE_COMMAND, FENCE_STORAGE, FENCE_NONE}):
            reason = f"must not use the name {name}, which is a fence without a command of its own: choose another name"
            raise errors.ConfigError(option="[recovery] fence_commands", reason=reason)
        if group.enabled and group.fence == FENCE_COMMAND and not command and not named:
            raise errors.ConfigError(option="[recovery] enabled", reason="needs fence_command, or another fence")
        return cls(
            enabled=group.enabled,
            wait_time_s=group.wait_time,
            fence=group.fence,
            fence_command=command,
            fence_commands=named,
            fence_timeout_s=group.fence_timeout,
            fence_attempts=group.fence_attempts,
            largest_share=group.largest_share,
            domain_label=group.domain_label or None,
            parallel=group.parallel,
        )


def _split(text: str, option: str) -> list[str]:
    """:raises errors.ConfigError:"""
    try:
        return shlex.split(text)
    except ValueError as broken:
        raise errors.ConfigError(option=f"[recovery] {option}", reason=f"cannot be read: {broken}") from None
