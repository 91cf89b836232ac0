# SPDX-License-Identifier: Apache-2.0
"""Text of others does nothing to a log or a terminal."""

from __future__ import annotations

import io
import logging
import sys

import pytest
from cliff import lister
from oslo_config import cfg
from oslo_log import formatters, log

from fleet import control_characters, errors
from fleet.objects import BuildRequest
from fleet.objects.volume import VolumeRequest
from fleet.telemetry import plain_log
from fleet_cli import main
from fleet_cli.base.output import plain_output

FORGED = "web\nCRITICAL the disk is full\r\x1b[2J\x1b]0;title\x07\x85\u2028\x00"
PLAIN = r"web\nCRITICAL the disk is full\r\x1b[2J\x1b]0;title\x07\x85\u2028\x00"


def test_one_line() -> None:
    """Letters of any language, spaces and tabs stay."""
    assert PLAIN == control_characters.one_line(FORGED)
    for text in ("", "a\tb", "größe 😀 日本\u00a0x", r"\n"):
        assert text == control_characters.one_line(text)


def test_lines() -> None:
    """Ends of lines stay; all else is escaped."""
    assert "a\nb\\x1b[0m\\rc\td" == control_characters.lines("a\nb\x1b[0m\rc\td")


@pytest.fixture
def logged() -> io.StringIO:
    """What a logger with one handler writes."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(plain_log.PlainFormatter(logging.Formatter("%(levelname)s %(message)s")))
    logger = logging.getLogger("fleet.test_forged")
    logger.propagate = False
    logger.handlers = [handler]
    logger.warning("Instance %s could not be found.", FORGED)
    try:
        raise ValueError(FORGED)
    except ValueError:
        logger.exception("It failed: %s", 1)
    return stream


def test_a_record_is_one_line(logged: io.StringIO) -> None:
    """Only a traceback has several, and none of them has an escape sequence."""
    first, *others = logged.getvalue().splitlines()
    assert f"WARNING Instance {PLAIN} could not be found." == first
    assert "ERROR It failed: 1" == others[0]
    assert control_characters.lines(logged.getvalue()) == logged.getvalue()


@pytest.mark.parametrize("explicit", [True, False])
def test_a_failure_that_is_tolerated_is_one_line(explicit: bool) -> None:
    """oslo.log ends the line with a summary of the exception. Its ends of lines are escaped; a traceback follows."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    conf = cfg.ConfigOpts()
    log.register_options(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    handler.setFormatter(plain_log.PlainFormatter(formatters.ContextFormatter(config=conf)))
    logger = logging.getLogger("fleet.test_tolerated")
    logger.propagate = False
    logger.handlers = [handler]
    try:
        raise OSError("no room\n2026-01-01 CRITICAL the disk is full")
    except OSError:
        logger.warning("It goes on", exc_info=explicit)
    first, *others = stream.getvalue().splitlines()
    assert "It goes on: OSError: no room" in first
    assert explicit == (r"no room\n2026-01-01 CRITICAL" in first)
    assert explicit == any("Traceback (most recent call last)" in line for line in others[:1])
    assert explicit or others == []


def test_every_handler_is_made_plain() -> None:
    """Once, however often logging is set up, and the record of other handlers stays as it is."""
    handler = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("fleet.test_control_characters")
    logger.addHandler(handler)
    try:
        plain_log.install()
        made = handler.formatter
        plain_log.install()
        assert made is handler.formatter
        assert isinstance(made, plain_log.PlainFormatter)
        record = logging.LogRecord("x", logging.INFO, "", 1, "a\nb", None, None)
        assert "a\\nb" == made.format(record)
        assert "a\nb" == record.msg
    finally:
        logger.removeHandler(handler)


def test_what_commands_print_is_plain(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and error messages; what clears the screen is the command's own."""

    class Faults(lister.Lister):
        def take_action(self, parsed_args: object) -> tuple:
            print(FORGED, file=sys.stderr)
            return ("Fault",), [("spawn \x1b]0;owned\x07 failed\x1b[2J",)]

    monkeypatch.setattr(main.FleetApp, "configure_logging", lambda app: None)
    monkeypatch.setattr(
        main.FleetApp, "initialize_app", lambda app, argv: app.command_manager.add_command("faults", Faults)
    )
    assert 0 == main.main(["faults"])
    printed = capsys.readouterr()
    assert r"spawn \x1b]0;owned\x07 failed\x1b[2J" in printed.out
    assert "\x1b" not in printed.out + printed.err
    assert "\x00" not in printed.err


def test_a_terminal_is_cleared_by_commands_only() -> None:
    """Through the stream below."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    below = Terminal()
    plain_output.clear(plain_output.PlainStream(below))
    assert "\x1b[H\x1b[2J" == below.getvalue()


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x85", "\u2028"])
@pytest.mark.parametrize(
    ("field", "request_"),
    [
        ("name", {"name": "a{}b"}),
        ("description", {"description": "a{}b"}),
        ("metadata.k", {"metadata": {"k": "a{}b"}}),
        ("metadata has a key that", {"metadata": {"a{}b": "v"}}),
        ("tags", {"tags": ["a{}b"]}),
        ("scheduler_hints.mine.0.x", {"scheduler_hints": {"mine": [{"x": "a{}b"}]}}),
        ("image.properties.p", {"image": {"properties": {"p": "a{}b"}}}),
        ("image.name", {"image": {"name": "a{}b"}}),
        ("availability_zone", {"availability_zone": "a{}b"}),
    ],
)
def test_control_characters_are_refused_where_they_are_parsed(field: str, request_: dict, character: str) -> None:
    """By the name of the field. User data are base64, so they may have any."""

    def filled(value: object) -> object:
        if isinstance(value, str):
            return value.replace("{}", character)
        if isinstance(value, list):
            return [filled(each) for each in value]
        return {filled(key): filled(each) for key, each in value.items()} if isinstance(value, dict) else value

    request = {"flavor": {"vcpus": 1, "memory_mb": 1}, **filled(request_)}  # type: ignore[dict-item]
    if character == "\t" and "." in field:
        return
    with pytest.raises(errors.InvalidInput, match=f"request.{field}.*must not contain control characters"):
        BuildRequest.from_wire(request)
    if "image" not in field and "tags" not in field:
        with pytest.raises(errors.InvalidInput, match=f"request.{field}.*must not contain control characters"):
            VolumeRequest.from_wire({"size": 1, **filled(request_)})  # type: ignore[dict-item]
