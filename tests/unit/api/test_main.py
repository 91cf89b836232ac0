# SPDX-License-Identifier: Apache-2.0
"""fleet-api ends in one line, at start, if an option is missing: to try again would not help."""

from __future__ import annotations

import pathlib

import pytest
from oslo_config import cfg

from fleet_api import main


@pytest.mark.parametrize(
    ("strategy", "option"),
    [
        ("http_basic", "[api] basic_auth_file is needed with auth_strategy = http_basic"),
        ("keystone", "[keystone_authtoken] auth_type is needed with auth_strategy = keystone"),
    ],
)
def test_the_options_of_the_strategy_are_needed(
    strategy: str, option: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """A unit of systemd would be active, and nothing would listen."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\ntransport_url = fake://\n[api]\nauth_strategy = {strategy}\n")
    load, conf = main.fleet.conf.load_config, cfg.ConfigOpts()
    monkeypatch.setattr(main.fleet.conf, "load_config", lambda *args: load(*args, conf=conf, setup_logging=False))
    monkeypatch.setattr(main.service, "launch", lambda *_args, **_more: pytest.fail("the daemon was started"))
    assert 1 == main.main(["--config-file", str(path)])
    assert f"fleet-api: Option {option}" in capsys.readouterr().err
