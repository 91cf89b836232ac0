# SPDX-License-Identifier: Apache-2.0
"""Programs without a usable configuration: they name the files that they looked for and the option to set."""

from __future__ import annotations

import contextlib
import json
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet_cli import main, manage

BROKER, DATABASE = "[DEFAULT] transport_url", "[database] connection"


def fleet_command(*argv: str) -> Callable[[], int]:
    return lambda: main.FleetApp(cfg.ConfigOpts()).run(list(argv))


def manage_command(*argv: str) -> Callable[[], int]:
    return lambda: manage.ManageApp(cfg.ConfigOpts()).run(list(argv))


PROGRAMS = [
    pytest.param(fleet_command("server", "list"), BROKER, id="fleet server list"),
    pytest.param(fleet_command("boot", "--flavor", "small", "web"), BROKER, id="fleet boot"),
    pytest.param(fleet_command("doctor", "-f", "json"), BROKER, id="fleet doctor"),
    pytest.param(fleet_command("top"), "[health] port", id="fleet top"),
    pytest.param(manage_command("db", "sync"), DATABASE, id="fleet-manage db sync"),
    pytest.param(manage_command("db", "version"), DATABASE, id="fleet-manage db version"),
    pytest.param(manage_command("audit"), DATABASE, id="fleet-manage audit"),
]


@pytest.fixture
def nowhere(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The place of the default configuration file, where there is none."""
    path = tmp_path / "etc" / "fleet.conf"
    monkeypatch.delenv(fleet_conf.CONFIG_FILE_VARIABLE, raising=False)
    monkeypatch.setattr(fleet_conf, "DEFAULT_CONFIG_FILE", str(path))
    return path


def said_by(program: Callable[[], int], capsys: pytest.CaptureFixture) -> tuple[int, str]:
    status = 1
    try:
        status = program()
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            return 1, str(ended.code)
        status = ended.code
    return status, "".join(capsys.readouterr())


@pytest.mark.usefixtures("root_logger")
@pytest.mark.parametrize(("program", "option"), PROGRAMS)
def test_without_any_file(
    program: Callable[[], int], option: str, nowhere: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    """The places that were searched are named, and the option to set."""
    status, said = said_by(program, capsys)
    assert 0 != status
    for part in (f"{option} is not set", "FLEET_CONFIG_FILE is not set", f"{nowhere} does not exist"):
        assert part in said


@pytest.mark.usefixtures("root_logger")
@pytest.mark.parametrize(("program", "option"), PROGRAMS)
def test_an_empty_variable_names_no_file(
    program: Callable[[], int],
    option: str,
    nowhere: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
) -> None:
    """It counts as not set, and not as the current directory."""
    monkeypatch.setenv(fleet_conf.CONFIG_FILE_VARIABLE, "")
    status, said = said_by(program, capsys)
    assert 0 != status
    for part in (f"{option} is not set", f"{nowhere} does not exist"):
        assert part in said


@pytest.mark.usefixtures("root_logger")
@pytest.mark.parametrize(("program", "option"), PROGRAMS)
def test_with_a_file_that_sets_nothing(
    program: Callable[[], int], option: str, nowhere: pathlib.Path, capsys: pytest.CaptureFixture
) -> None:
    """The file that was read is named."""
    nowhere.parent.mkdir()
    nowhere.write_text("[DEFAULT]\nhost = h1\n")
    status, said = said_by(program, capsys)
    assert 0 != status
    assert f"{option} is not set. Configuration read: {nowhere}." in said


@pytest.mark.parametrize(
    "service",
    ["conductor_stub", *(pytest.param(each, marks=pytest.mark.long) for each in ("scheduler", "compute_agent"))],
)
def test_daemons_refuse_to_start(service: str, tmp_path: pathlib.Path) -> None:
    """In one line, and at once."""
    file = tmp_path / "fleet.conf"
    file.write_text("[DEFAULT]\nhost = h1\n")
    command = [sys.executable, "-m", f"{service}.main", "--config-file", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert 1 == done.returncode
    assert f"{BROKER} is not set. Configuration read: {file}." in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("root_logger", "nowhere")
def test_the_doctor_says_one_thing(capsys: pytest.CaptureFixture) -> None:
    """That there is no configuration; nothing else can be checked."""
    status = fleet_command("doctor", "-f", "json")()
    (found,) = json.loads(capsys.readouterr().out)
    assert (2, "FAIL", "configuration") == (status, found["result"], found["check"])
    assert "--url" in found["fix"]


@pytest.mark.usefixtures("root_logger")
def test_help_needs_no_configuration(nowhere: pathlib.Path, capsys: pytest.CaptureFixture) -> None:
    """The first thing that a new user types works."""
    with contextlib.suppress(SystemExit):
        fleet_command("boot", "--help")()
    assert "--availability-zone" in capsys.readouterr().out
