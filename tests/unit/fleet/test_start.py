# SPDX-License-Identifier: Apache-2.0
"""How the programs begin: Ctrl-C, closed streams, versions, and configurations that are not as they should be."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import subprocess
import sys
from typing import Any

import pytest
from oslo_log import log as logging

from fleet import conf as fleet_conf
from fleet.rpc import versions

DAEMONS = {"conductor": "fleet-conductor", "scheduler": "fleet-scheduler", "compute": "fleet-compute"}
CONFIG = "[DEFAULT]\ntransport_url = rabbit://a:b@127.0.0.1:1/\nhost = h1\n{more}\n[database]\nconnection = sqlite:///{directory}/fleet.db\n"


def at_night(program: str) -> Any:
    """A parameter for ``make long``: each start takes more than a second of processor time."""
    return pytest.param(program, marks=pytest.mark.long)


def start(program: str, *argv: str, **options: object) -> subprocess.Popen:
    """As the installed program does."""
    code = f"import sys, fleet_start; sys.argv[0] = 'fleet'; sys.exit(fleet_start.{program}())"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, "-c", code, *argv], **{**pipes, **options})  # type: ignore[call-overload]


def ended(process: subprocess.Popen) -> tuple[int, str, str]:
    printed, complaints = process.communicate(timeout=200)
    return process.returncode, printed, complaints


def a_config(directory: pathlib.Path, more: str = "") -> str:
    path = directory / "fleet.conf"
    path.write_text(CONFIG.format(directory=directory, more=f"instances_path = {directory}\n{more}"))
    return str(path)


@pytest.mark.parametrize("program", ["conductor", "api", *map(at_night, ("scheduler", "compute", "volume"))])
def test_daemons_have_a_version(program: str) -> None:
    """As the commands have. They do not import what takes long and is seldom used."""
    env = {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}
    status, printed, complaints = ended(start(program, "--version", env=env))
    assert (0, f"fleet-{program} {versions.release()}\n") == (status, printed)
    lines = complaints.splitlines()
    assert [] == [line for line in lines if not line.startswith("import time:")]
    assert {"oslo_service.backend._eventlet", "scipy.optimize._optimize"}.isdisjoint(line.split()[-1] for line in lines)


def test_the_door_as_a_module() -> None:
    """As a trial fleet starts it: with native threads, and without a warning of eventlet's end."""
    done = subprocess.run(
        [sys.executable, "-W", "default", "-m", "fleet_api.main", "--version"],
        capture_output=True, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.parametrize("program", ["fleet", "manage", *DAEMONS])
def test_ctrl_c_while_modules_are_imported(program: str, tmp_path: pathlib.Path) -> None:
    """Ends the program at once, without a traceback."""
    (tmp_path / "oslo_config.py").write_text("import time\nprint('importing', flush=True)\ntime.sleep(100)\n")
    process = start(program, "--help", env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"})
    assert process.stdout is not None
    assert "importing\n" == process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert (-signal.SIGINT, "", "") == ended(process)


def test_a_closed_stdout() -> None:
    """What is printed is lost, and that is all."""
    done = subprocess.run(
        f"{sys.executable} -c 'import fleet_start, sys; sys.exit(fleet_start.fleet())' --help >&-",
        shell=True, stderr=subprocess.PIPE, text=True, check=False, timeout=200,
    )  # fmt: skip
    assert (0, "") == (done.returncode, done.stderr)


def test_a_reader_that_has_read_enough() -> None:
    """The program ends as one that writes to a closed pipe does, without a word."""
    read, write = os.pipe()
    os.close(read)
    process = start("fleet", "complete", stdout=write)
    os.close(write)
    status, _, complaints = ended(process)
    assert (128 + signal.SIGPIPE, "") == (status, complaints)


@pytest.mark.parametrize("program", ["conductor", *map(at_night, ("scheduler", "compute"))])
def test_a_log_that_cannot_be_written(program: str, tmp_path: pathlib.Path) -> None:
    """One line, with the path and the reason."""
    status, _, complaints = ended(start(program, "--config-file", a_config(tmp_path, "log_file = /nonexistent/x.log")))
    told = f"{DAEMONS[program]}: the log cannot be written: /nonexistent/x.log: No such file or directory"
    assert (1, told) == (status, complaints.splitlines()[-1])


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A database at the newest schema, to be copied."""
    directory = tmp_path_factory.mktemp("ledger")
    assert 0 == ended(start("manage", "--config-file", a_config(directory), "db", "sync"))[0]
    return directory / "fleet.db"


@pytest.mark.parametrize("program", ["conductor", *map(at_night, ("scheduler", "compute"))])
def test_sigterm_before_the_broker_was_reached(program: str, ledger: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Nothing was served, so nothing is waited for: the daemon ends at once, however long it may take to stop.

    And it has warned of an option that is misspelt.
    """
    more = "stop_timeout = 3600\nreport_intervall = 3"
    config = a_config(tmp_path, more)
    if program != "compute":  # an agent has no database
        shutil.copy(ledger, tmp_path / "fleet.db")
    process = start(program, "--config-file", config, stderr=subprocess.STDOUT)
    said = []
    assert process.stdout is not None
    for line in process.stdout:
        said.append(line)
        if "The broker refuses or is away" in line:
            break
    process.send_signal(signal.SIGTERM)
    assert 0 == ended(process)[0]
    (warning,) = [line for line in said if "report_intervall: there is no such option" in line]
    assert "WARNING" in warning
    assert "is [DEFAULT] report_interval meant?" in warning


def test_a_log_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """The reason is the system's."""

    def refuse(*args: object) -> None:
        raise PermissionError(13, "Permission denied", "/var/log/fleet.log")

    monkeypatch.setattr(logging, "setup", refuse)
    file = tmp_path / "fleet.conf"
    file.write_text("[DEFAULT]\n")
    with pytest.raises(SystemExit, match="fleet-x: the log cannot be written: /var/log/fleet.log: Permission denied"):
        fleet_conf.load_config(["--config-file", str(file)], "fleet-x", conf=fleet_conf.cfg.ConfigOpts())
