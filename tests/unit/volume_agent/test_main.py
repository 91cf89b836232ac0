# SPDX-License-Identifier: Apache-2.0
"""A section of a backend that cannot be used ends fleet-volume in one line, at start."""

from __future__ import annotations

import pathlib

import pytest
from oslo_config import cfg

from volume_agent import main


def test_a_wrong_value_in_the_section_of_a_backend(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The section is known only when ``enabled_backends`` has been read. The line has its name and the file."""
    monkeypatch.setattr(main.fleet_conf.logging, "setup", lambda *_: None)
    path = tmp_path / "fleet.conf"
    path.write_text(
        f"[DEFAULT]\ntransport_url = fake://\nvolume_state_path = {tmp_path}\nenabled_backends = files\n"
        "[files]\nvolume_driver = directory\ndirectory_pools = /var/lib/fleet/volumes\n"
    )
    reason = 'Value should be NAME:VALUE pairs separated by ","'
    with pytest.raises(SystemExit) as ended:
        _main(path, monkeypatch)
    assert f"fleet-volume: Option [files] directory_pools in {path} is not valid: {reason}" == str(ended.value)


@pytest.mark.parametrize(
    ("driver", "option", "place"),
    [("directory", "directory_pools", "/srv"), ("lvm", "lvm_pools", "vg"), ("fake", "fake_pools", "100")],
)
def test_a_pool_that_no_location_can_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, driver: str, option: str, place: str
) -> None:
    """``m1@disks#fast#1`` would be read as a backend without a pool. The line has the option and the name."""
    monkeypatch.setattr(main.fleet_conf.logging, "setup", lambda *_: None)
    path = tmp_path / "fleet.conf"
    path.write_text(
        f"[DEFAULT]\ntransport_url = fake://\nvolume_state_path = {tmp_path}\nenabled_backends = disks\n"
        f"[disks]\nvolume_driver = {driver}\n{option} = slow:{place},fast#1:{place}\n"
    )
    with pytest.raises(SystemExit) as ended:
        _main(path, monkeypatch)
    assert f"Option {option} names pool 'fast#1', which must not contain #" in str(ended.value)


def _main(path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load, conf = main.fleet_conf.load_config, cfg.ConfigOpts()
    monkeypatch.setattr(main.fleet_conf, "load_config", lambda *args: load(*args, conf=conf))
    main.main(["--config-file", str(path)])
