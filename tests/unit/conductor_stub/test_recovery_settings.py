# SPDX-License-Identifier: Apache-2.0
"""The section [recovery]: what would fence nothing is refused at start."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from conductor_stub import conf as conductor_conf
from conductor_stub.steps.recovery_settings import RecoverySettings
from fleet import errors


def configured(**options: object) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conductor_conf.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        conf.set_override(name, value, group="recovery")
    return conf


@pytest.mark.parametrize("name", ["storage", "none", "command"])
def test_the_name_of_a_fence_without_a_command_is_taken(name: str) -> None:
    """An aggregate that names it would get no command, and its guests would run twice."""
    with pytest.raises(errors.ConfigError, match=f"fence_commands must not use the name {name}"):
        RecoverySettings.from_conf(configured(fence_commands={name: "/sbin/cut-off"}))


def test_named_fences() -> None:
    found = RecoverySettings.from_conf(configured(enabled=True, fence_commands={"pdu": "/sbin/pdu-off -v"}))
    assert {"pdu": ["/sbin/pdu-off", "-v"]} == dict(found.fence_commands)
