# SPDX-License-Identifier: Apache-2.0
"""A configuration that cannot be worked with ends the program in one line, at start."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable, Iterator

import pytest
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet import errors
from fleet.checks import required

WRONG = [
    ("out of range", "report_interval = 0"),
    ("not a number", "service_down_time = soon"),
    ("not a line of options", "report_interval"),
]


@pytest.mark.parametrize(("what", "line"), WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_option_ends_the_program(tmp_path: pathlib.Path, what: str, line: str) -> None:
    """Also one that is only read much later, and the message names it."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\n{line}\n")
    with pytest.raises(SystemExit) as ended:
        fleet_conf.load_config(["--config-file", str(path)], "fleet-test", conf=cfg.ConfigOpts(), setup_logging=False)
    assert str(ended.value).startswith("fleet-test: ")
    assert line.split(" ")[0] in str(ended.value)


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("max_clock_skew = nan", "fleet-test: max_clock_skew must be a finite number, got nan"),
        ("max_clock_skew = inf", "fleet-test: max_clock_skew must be a finite number, got inf"),
        ("[own]\nlimit = nan", "fleet-test: [own] limit must be a finite number, got nan"),
    ],
)
def test_a_number_is_finite(tmp_path: pathlib.Path, text: str, refusal: str) -> None:
    """oslo.config takes NaN for a number that is not below any minimum."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    with pytest.raises(SystemExit) as ended:
        _load(path, lambda conf: conf.register_opt(cfg.FloatOpt("limit", min=0.0), "own"))
    assert refusal == str(ended.value)


@pytest.mark.parametrize(
    ("text", "option", "reason"),
    [
        ("report_interval = soon", "[DEFAULT] report_interval", "must be a whole number, got 'soon'"),
        ("max_clock_skew = soon", "[DEFAULT] max_clock_skew", "must be a number, got 'soon'"),
        ("report_interval = 0", "[DEFAULT] report_interval", "Should be greater than or equal to 1"),
        ("[own]\nlimit = none", "[own] limit", "must be a number, got 'none'"),
    ],
)
def test_a_value_that_cannot_be_used(tmp_path: pathlib.Path, text: str, option: str, reason: str) -> None:
    """The message has the section, the option, the file and the reason, and no class of oslo.config."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    with pytest.raises(SystemExit) as ended:
        _load(path, lambda conf: conf.register_opt(cfg.FloatOpt("limit", min=0.0), "own"))
    assert f"fleet-test: Option {option} in {path} is not valid: {reason}" == str(ended.value)


def test_a_value_of_the_environment(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """oslo.config reads ``OS_SECTION__OPTION`` where no file has the option. One line, and no traceback."""
    monkeypatch.setenv("OS_DEFAULT__REPORT_INTERVAL", "soon")
    (tmp_path / "fleet.conf").write_text("")
    with pytest.raises(
        SystemExit, match=r"in the environment variable OS_DEFAULT__REPORT_INTERVAL is not valid: must be"
    ):
        _load(tmp_path / "fleet.conf")


@pytest.fixture
def root_logger() -> Iterator[None]:
    """Puts back what a setup that fails half-way has changed."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("log_config_append = {path}/none", "log_config_append: {path}/none: .*No such file or directory"),
        ("log_config_append = {path}/fleet.conf", "log_config_append: {path}/fleet.conf: "),
        ("default_log_levels = amqp", "default_log_levels has 'amqp', and needs LOGGER=LEVEL, such as amqp=WARN"),
        ("default_log_levels = amqp=LOUD", "default_log_levels has 'amqp=LOUD', and needs LOGGER=LEVEL"),
        ("use_syslog = true\nsyslog_log_facility = nix", "the log cannot be set up: syslog facility must be one of"),
    ],
)
@pytest.mark.usefixtures("root_logger")
def test_a_log_that_cannot_be_set_up(tmp_path: pathlib.Path, line: str, reason: str) -> None:
    """One line with the option, and no traceback."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\n{line.format(path=tmp_path)}\n")
    with pytest.raises(SystemExit, match=f"^fleet-test: {reason.format(path=tmp_path)}"):
        fleet_conf.load_config(["--config-file", str(path)], "fleet-test", conf=cfg.ConfigOpts())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"[loggers", "File contains no section headers"),
        (b"\xff", "codec can't decode"),
        (b"[loggers]\n[formatters]\n", r"it has no section \[handlers\]"),
    ],
)
def test_a_log_that_cannot_be_reloaded(tmp_path: pathlib.Path, content: bytes | None, reason: str) -> None:
    """The whole configuration is refused at SIGHUP: oslo.log would end the worker in the middle of its work."""
    path, log = tmp_path / "fleet.conf", tmp_path / "log.conf"
    path.write_text(f"[DEFAULT]\nlog_config_append = {log}\n")
    if content is not None:
        log.write_bytes(content)
    with pytest.raises(cfg.Error, match=f"^log_config_append: {log}: .*{reason}"):
        fleet_conf.check_files(["--config-file", str(path)])
    log.write_text("[loggers]\n[handlers]\n[formatters]\n")
    fleet_conf.check_files(["--config-file", str(path)])


DOLLARS = [
    ("[DEFAULT] report_interval", "report_interval = $soon"),
    ("[DEFAULT] transport_url", "transport_url = rabbit://fleet:pa$soon@host:5672/"),
    ("[database] connection", "[database]\nconnection = postgresql+psycopg2://fleet:pa$soon@host/fleet"),
    ("[database] connection", "[database]\nconnection = postgresql+psycopg2://fleet:pa${soon.er}@host/fleet"),
]


@pytest.mark.parametrize(("option", "text"), DOLLARS)
def test_a_dollar_sign_in_a_password(tmp_path: pathlib.Path, option: str, text: str) -> None:
    """It begins the name of another option, so it must be doubled. The message does not have the password."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\n{text}\n")
    with pytest.raises(SystemExit) as ended:
        _load(path)
    section, name = option.split()
    assert f"{name} has a $ that is followed by the name of no option: write $$" in str(ended.value)
    assert section == "[DEFAULT]" or section in str(ended.value)
    assert "soon" not in str(ended.value)
    path.write_text(f"[DEFAULT]\n{text}\n".replace("$", "$$").replace("report_interval = $$", "host = "))
    assert _load(path)


def test_a_dollar_sign_at_a_reload(tmp_path: pathlib.Path) -> None:
    """A file with it is refused, and the daemon keeps its options."""
    path = tmp_path / "fleet.conf"
    path.write_text("[DEFAULT]\ntransport_url = rabbit://fleet:pa$soon@host:5672/\n")
    with pytest.raises(cfg.Error, match=r"transport_url has a \$"):
        fleet_conf.check_files(["--config-file", str(path)])


def _load(path: pathlib.Path, *register: Callable[[cfg.ConfigOpts], object]) -> cfg.ConfigOpts:
    arguments = ["--config-file", str(path)]
    return fleet_conf.load_config(
        arguments, "fleet-test", register=register, conf=cfg.ConfigOpts(), setup_logging=False
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "configuration file {path} is a directory, not a file"),
        (b"\xff\xfe", "is not a text file: --config-file {path}"),
    ],
    ids=["a directory", "no text"],
)
def test_what_is_no_configuration_file(tmp_path: pathlib.Path, content: bytes | None, reason: str) -> None:
    """A line that names the file, and no traceback."""
    path = tmp_path
    if content is not None:
        path = tmp_path / "fleet.conf"
        path.write_bytes(content)
    with pytest.raises(SystemExit, match=f"^fleet-test: .*{reason.format(path=path)}$"):
        fleet_conf.load_config(["--config-file", str(path)], "fleet-test", conf=cfg.ConfigOpts(), setup_logging=False)


def test_a_password_that_breaks_its_url(tmp_path: pathlib.Path) -> None:
    """The option is named, and what to write; the password is not."""
    path = tmp_path / "fleet.conf"
    path.write_text("[DEFAULT]\ntransport_url = rabbit://fleet:secret/cd@127.0.0.1:5672/\n")
    with pytest.raises(SystemExit, match=r"Option \[DEFAULT\] transport_url is no URL .* %2F for /") as refused:
        fleet_conf.load_config(["--config-file", str(path)], "fleet-test", conf=cfg.ConfigOpts(), setup_logging=False)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("", "transport_url is not set"),
        ("foo://fleet:secret@h/", "is for foo, of which no driver is installed"),
        ("fleet:secret", "transport_url is no URL"),
    ],
)
def test_a_broker_that_cannot_be_used(tmp_path: pathlib.Path, url: str, reason: str) -> None:
    path = tmp_path / "fleet.conf"
    path.write_text(f"[DEFAULT]\ntransport_url = {url}\n")
    with pytest.raises(errors.FleetError, match=reason) as refused:
        required.broker(_load(path))
    assert "secret" not in refused.value.message
