# SPDX-License-Identifier: Apache-2.0
"""``make up``: the configuration is the user's to edit, one fleet runs in a directory, and a fleet has hosts."""

from __future__ import annotations

import pathlib
import socket
import subprocess
import sys

import pytest
from oslo_config import cfg

from fleet.rpc.rabbit import defaults
from fleet_trial import trio, trio_config

EDITED = "# mine\n[fake]\nvcpus = 99\n[DEFAULT]\n# why: a trial\nreport_interval = 7\ntransport_url = rabbit://old/\n"


def values(path: pathlib.Path) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    cfg.ConfigParser(str(path), sections).parse()
    return sections


def test_a_new_one(tmp_path: pathlib.Path) -> None:
    """An embedded trio with simulated hosts; no other user can read the file."""
    path = trio_config.write(tmp_path / "here", None)
    found = values(path)
    assert [f"local://{tmp_path}/here/fleet.sock"] == found["DEFAULT"]["transport_url"]
    assert [f"sqlite:///{tmp_path}/here/fleet.db"] == found["database"]["connection"]
    assert ["true"] == found["fake"]["persist"], "the guests of one start are there at the next"
    assert (["host[1-5]"], ["fake"]) == (found["DEFAULT"]["hosts"], found["DEFAULT"]["compute_driver"])
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)


def test_volumes_and_metrics_work_at_once(tmp_path: pathlib.Path) -> None:
    """Every host reaches the volumes, and daemons show their metrics; also with a file of an earlier release."""
    path = trio_config.write(tmp_path, None)
    found = values(path)
    assert ["*"] == found["DEFAULT"]["volume_hosts"]
    assert int(found["health"]["port"][0]) > 0
    path.write_text(EDITED)
    found = values(trio_config.write(tmp_path, None))
    assert (["*"], True) == (found["DEFAULT"]["volume_hosts"], int(found["health"]["port"][0]) > 0)
    path.write_text("[DEFAULT]\nvolume_hosts = storage1\n")
    assert ["storage1"] == values(trio_config.write(tmp_path, None))["DEFAULT"]["volume_hosts"]


def test_a_port_of_metrics_that_is_in_use(tmp_path: pathlib.Path) -> None:
    """Another one is taken if that of any daemon is in use, here that of the third."""
    path = tmp_path / "fleet.conf"
    with socket.create_server(("127.0.0.1", 0)) as used:
        of_third = used.getsockname()[1]
        path.write_text(f"[health]\nport = {of_third - 40}\n")
        assert [str(of_third - 40)] != values(trio_config.write(tmp_path, None))["health"]["port"]


def test_edits_stay(tmp_path: pathlib.Path) -> None:
    """Comments, too; the addresses are those of this run, and hosts only if they are named."""
    path = tmp_path / "fleet.conf"
    path.write_text(EDITED)
    trio_config.write(tmp_path, None, "rabbit://new/", "postgresql://new/")
    text = path.read_text()
    assert all(line in text for line in ("# mine", "vcpus = 99", "# why: a trial", "report_interval = 7"))
    found = values(path)
    assert ["rabbit://new/"] == found["DEFAULT"]["transport_url"]
    assert ["postgresql://new/"] == found["database"]["connection"]
    assert [f"{tmp_path}/instances-of-private-database"] == found["DEFAULT"]["instances_path"]
    assert "hosts" not in found["DEFAULT"]
    trio_config.write(tmp_path, 3)
    assert ["host[1-3]"] == values(path)["DEFAULT"]["hosts"]
    once = path.read_text()
    trio_config.write(tmp_path, 3)
    assert once == path.read_text()


def test_further_pools_stay(tmp_path: pathlib.Path) -> None:
    """The pool of the trial moves to the directory of the database in use."""
    path = trio_config.write(tmp_path, None)
    first = f"files:{tmp_path}/instances/disks"
    path.write_text(path.read_text().replace(first, f"{first},more:/srv/more"))
    trio_config.write(tmp_path, None, "rabbit://new/", "postgresql://new/")
    own = f"files:{tmp_path}/instances-of-private-database/disks"
    assert [f"{own},more:/srv/more"] == values(path)["disks"]["directory_pools"]


def test_one_fleet_in_a_directory(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """The second start names the running process and changes nothing."""
    config = trio_config.write(tmp_path, 3)
    with trio_config.occupied(tmp_path):
        before = {each: each.read_bytes() for each in tmp_path.iterdir()}
        assert 1 == trio.main(["up", "--directory", str(tmp_path), "--hosts", "7"])
        assert before == {each: each.read_bytes() for each in tmp_path.iterdir()}
    told = capsys.readouterr().err
    assert f"A fleet is running in {tmp_path} already (process " in told
    assert f"FLEET_CONFIG_FILE={config}" in told
    with trio_config.occupied(tmp_path):
        """It is free again."""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("do$lar", "$ in a path would have a meaning"),
        ("100%25,so", "% and , in a path would have a meaning"),
        ("what?", "? in a path would have a meaning"),
        ("file", "File exists"),
        ("file/below", "Not a directory"),
    ],
)
def test_a_directory_that_cannot_be_used(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str], name: str, reason: str
) -> None:
    """The message has the directory and the reason, and nothing is written there."""
    (tmp_path / "file").touch()
    assert 1 == trio.main(["up", "--directory", str(tmp_path / name)])
    told = capsys.readouterr().err
    assert (True, True) == (f"No fleet can run in {tmp_path / name}: " in told, reason in told)
    assert ["file"] == [each.name for each in tmp_path.iterdir()]


def test_a_fleet_has_hosts(tmp_path: pathlib.Path) -> None:
    """None is refused."""
    command = [sys.executable, "-m", "fleet_trial.trio", "up", "--directory", str(tmp_path), "--hosts", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (2, True) == (done.returncode, "must be a whole number from 1, got '0'" in done.stderr)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(("hosts", "expected"), [(["host[1-5]"], 5), (["a", "b"], 2), (["h[08-11]", "x"], 5), ([], 1)])
def test_how_many_are_waited_for(hosts: list[str], expected: int) -> None:
    """As many as the configuration names."""
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.ListOpt("hosts", default=hosts))
    assert expected == trio._expected(conf)


def test_misspelt_options_are_named(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Edits of the file are the user's; an option that does not exist would have no effect, without a word."""
    config = trio_config.write(tmp_path, 3)
    trio.warn_of_options(config)
    assert "" == capsys.readouterr().err
    config.write_text(config.read_text().replace("report_interval", "reprot_interval"))
    trio.warn_of_options(config)
    assert "reprot_interval: there is no such option. It has no effect; is [DEFAULT] report_interval meant?" in (
        capsys.readouterr().err
    )


def test_the_port_of_the_api_is_free(tmp_path: pathlib.Path) -> None:
    """The user's own port stays, unless something listens there."""
    path = trio_config.write(tmp_path, None)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        path.write_text(trio_config.with_options(path.read_text(), {("api", "port"): str(taken)}))
        trio_config.write(tmp_path, None)
    (moved,) = values(path)["api"]["port"]
    assert moved not in (str(taken), "0")
    trio_config.write(tmp_path, None)
    assert [moved] == values(path)["api"]["port"]


def test_real_guests(tmp_path: pathlib.Path) -> None:
    """This machine is the only host, and the hypervisor's address is set anew at each start."""
    for address in ("qemu:///first", "qemu:///second"):
        lines = trio_config.write(tmp_path, None, libvirt_uri=address).read_text().splitlines()
        wanted = {"compute_driver = libvirt", "hosts = host1", "[libvirt]", f"connection_uri = {address}"}
        assert wanted <= set(lines)
        assert 1 == sum(line.startswith("connection_uri") for line in lines)


def test_options_of_all_services_stand_beside_those_of_the_broker() -> None:
    """A trial fleet declares both in one process. Its own list for the sample has the broker's with other defaults."""
    conf = cfg.ConfigOpts()
    trio._register_all(conf)
    defaults.register_opts(conf)
    conf([])
    assert conf.oslo_messaging_rabbit.amqp_durable_queues
    assert 0 < conf.api.port
