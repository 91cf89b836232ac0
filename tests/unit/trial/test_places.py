# SPDX-License-Identifier: Apache-2.0
"""A private server as root needs a system user, which may be missing."""

from __future__ import annotations

import os
import pathlib

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
