# SPDX-License-Identifier: Apache-2.0
"""A private server needs a port of its own and, as root, a system user, which may be missing."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from fleet_trial.private_servers import process


def test_a_system_user_that_does_not_exist(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The message names it and what to do; no directory is left."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(process.tempfile, "tempdir", str(tmp_path))
    with (
        pytest.raises(process.ServerMissing, match="system user no-such-user does not exist: create it"),
        process.place("postgresql", user="no-such-user"),
    ):
        pytest.fail("there is no place")
    assert [] == list(tmp_path.iterdir())


def test_a_process_with_ports_ends_without_warnings() -> None:
    """The locks of its ports last until its end."""
    program = "from fleet_trial.private_servers import process; process.free_ports(2)"
    ended = subprocess.run([sys.executable, "-W", "default", "-c", program], capture_output=True, text=True, check=True)
    assert "" == ended.stderr
