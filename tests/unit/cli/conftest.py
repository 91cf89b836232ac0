# SPDX-License-Identifier: Apache-2.0
"""Runs ``fleet`` with a conductor in memory."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fleet_cli import main
from tests.unit.cli import fakes


@pytest.fixture
def root_logger() -> Iterator[None]:
    """cliff gives the root logger a handler that writes to this test's stderr."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def run(root_logger: None, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path):
    """Runs ``fleet`` with a conductor in memory; returns exit status, output and errors."""
    config = tmp_path / "fleet.conf"
    config.write_text("[DEFAULT]\n")
    monkeypatch.setenv("FLEET_CONFIG_FILE", str(config))

    def run_fleet(conductor: fakes.Conductor, *argv: str) -> tuple[int, str, str]:
        app = main.FleetApp(cfg.ConfigOpts())
        app.connection = conductor
        status = app.run(list(argv))
        return status, *capsys.readouterr()

    return run_fleet
