# SPDX-License-Identifier: Apache-2.0
"""What a new user meets: the overview, the help, other programs' names of commands, and refusals of a wrong line."""

from __future__ import annotations

import io
import logging
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet_cli import command_list, main, manage
from fleet_cli.base import application, suggestions
from scheduler.engine.supervision import supervision
from tests.unit.cli import fakes

PROGRAMS = [main.FleetApp, manage.ManageApp]
Printed = tuple[int, str, str]
Run = Callable[..., Printed]


@pytest.fixture
def type_in(
    root_logger: None, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> Run:
    """Runs a program without any configuration file."""
    monkeypatch.delenv("FLEET_CONFIG_FILE", raising=False)
    monkeypatch.setattr(fleet_conf, "DEFAULT_CONFIG_FILE", str(tmp_path / "no.conf"))

    def run(program: type[application.Application], *argv: str) -> Printed:
        try:
            status = program(cfg.ConfigOpts()).run(list(argv))
        except SystemExit as ended:
            status = ended.code
        return status, *capsys.readouterr()

    return run


def commands(program: type[application.Application]) -> list[str]:
    of_program = command_list.COMMANDS if program is main.FleetApp else manage.COMMANDS
    return [name for name, _what in of_program]


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_bare_program(type_in: Run, program: type[application.Application]) -> None:
    """An overview by topic with the first steps, and no configuration is read."""
    status, printed, said = type_in(program)
    assert (0, "") == (status, said)
    assert max(map(len, printed.splitlines())) <= 80
    assert "First steps" in printed
    for name in commands(program):
        assert name.split()[0] in printed


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("argv", [("--help",), ("help",), ("-h",)])
def test_help(type_in: Run, program: type[application.Application], argv: tuple[str, ...]) -> None:
    """Each command with a description, under its topic, within 80 columns; aliases are not among them."""
    status, printed, said = type_in(program, *argv)
    assert (0, "") == (status, said)
    lines = printed.splitlines()
    assert max(map(len, lines)) <= 80
    for name in [*commands(program), "complete", "help"]:
        assert 1 == len([line for line in lines if line == f"  {name}" or line.startswith(f"  {name}  ")]), name
    assert not any(line.startswith("  server create") for line in lines)


@pytest.mark.parametrize("program", PROGRAMS)
def test_descriptions_are_whole(type_in: Run, program: type[application.Application]) -> None:
    """Also those of two lines: none ends in the middle of a sentence."""
    printed = " ".join(type_in(program, "--help")[1].split())
    manager = program(cfg.ConfigOpts()).command_manager
    for name in commands(program):
        about = manager.find_command(name.split())[0].__doc__.split("\n\n")[0]
        assert " ".join(about.split()).rstrip(".") in printed, name


#: What users of the openstack command type, and what is called. The names are those of the fake conductor.
HABITS: list[tuple[str, str, dict[str, Any]]] = [
    ("server add volume web data", "attach_volume", {"name": "web", "volume": "data"}),
    ("server remove volume web data", "detach_volume", {"name": "web", "volume": "data"}),
    ("server migrate --live-migration --host h2 web", "live_migrate_instance", {"name": "web", "host": "h2"}),
    ("server migration confirm web", "confirm_resize", {"name": "web"}),
    ("server migration revert web", "revert_resize", {"name": "web"}),
    ("server group delete apart", "delete_group", {"name": "u"}),
    ("console log show --lines 5 web", "get_console_output", {"name": "web"}),
    ("aggregate add host racks h1", "add_aggregate_host", {"name": "racks", "host": "h1"}),
    ("aggregate remove host racks h1", "remove_aggregate_host", {"name": "racks", "host": "h1"}),
]


@pytest.mark.parametrize(("line", "method", "arguments"), HABITS, ids=[line for line, _method, _arguments in HABITS])
def test_habits_of_the_openstack_command(run: Run, line: str, method: str, arguments: dict[str, Any]) -> None:
    """The names and the order of arguments are those of the openstack command."""
    conductor = fakes.Conductor()
    record = {"instance_uuid": "u", "migration_type": "resize", "status": "accepted", "volume": "v", "uuid": "u"}
    conductor.answers = {method: [] if method == "get_console_output" else record}
    conductor.answers["show_group"] = {"uuid": "u", "name": "apart", "members": []}
    run(conductor, *line.split())
    assert [(method, arguments)] == [each for each in conductor.calls if each[0] == method]


def test_server_create(run: Run) -> None:
    """It boots, with the options of the openstack command."""
    conductor = fakes.Conductor()
    line = "server create --flavor small --property a=b --min 1 --max 2 --wait web"
    status, printed, _said = run(conductor, *line.split())
    assert (0, 2) == (status, printed.count("ACTIVE"))
    (request,) = conductor.requests
    assert ("web", "small", {"a": "b"}, 2) == (
        request["name"],
        request["flavor"],
        request["metadata"],
        request["count"],
    )


def test_aliases_lead_to_commands() -> None:
    """Each to one that exists, and none hides a command."""
    names = set(commands(main.FleetApp))
    assert set(command_list.ALIASES.values()) <= names
    assert set() == names & set(command_list.ALIASES)


def test_help_of_a_group_lists_its_commands(run: Run) -> None:
    status, printed, refusal = run(fakes.Conductor(), "help", "balance")
    assert (0, "") == (status, refusal)
    assert "balance history" in printed


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bot", "'bot' is no command; did you mean 'boot'?"),
        ("hots drian h1", "'hots drian h1' is no command; did you mean 'host drain'?"),
        ("server remove web", "'server remove web' is no command; did you mean 'server delete' or "),
        ("instance ls", "'instance ls' is no command; did you mean 'server list' or 'service list'?"),
        ("evacuate web", "'evacuate web' is no command; did you mean 'server evacuate'?"),
        ("zzz", "'zzz' is no command."),
        ("queue", "'queue' needs one of these words: list."),
        ("queue frobnicate", "'queue frobnicate' is no command; 'queue' has list."),
        ("help zzz", "'zzz' is no command."),
        ("help bot", "'bot' is no command; did you mean 'boot'?"),
        ("--frob server list", "--frob is no option."),
    ],
)
def test_a_command_that_does_not_exist(run: Run, line: str, said: str) -> None:
    """One line on the error stream: at most three suggestions, the likely one first, and where to read more."""
    status, printed, refusal = run(fakes.Conductor(), *line.split())
    assert (2, "") == (status, printed)
    assert refusal.startswith(f"fleet: {said}")
    assert refusal.endswith(" See 'fleet --help'.\n")
    assert 1 == refusal.count("\n")
    assert refusal.count("'") <= 2 + 2 * 3 + 2


def test_suggestions_of_one_letter_that_is_wrong() -> None:
    """The command is the first suggestion if a letter of it is left out: every fourth one, another one in each command."""
    names = commands(main.FleetApp)
    for place, name in enumerate(names):
        for number, letter in list(enumerate(name))[place % 4 :: 4]:
            wrong = name[:number] + name[number + 1 :]
            is_command = any(wrong == each or wrong.startswith(f"{each} ") for each in names)
            if letter != " " and not is_command and min(map(len, name.split())) > 4:
                assert name in suggestions.suggested(wrong.split(), names), wrong


@pytest.mark.parametrize("program", PROGRAMS)
def test_arguments_that_are_wrong(type_in: Run, program: type[application.Application]) -> None:
    """One line, and where to read more; not the whole usage."""
    name = program.NAME
    wrong = ("boot", "web") if program is main.FleetApp else ("ledger", "adopt")
    missing = "--flavor" if program is main.FleetApp else "UUID"
    status, printed, refusal = type_in(program, *wrong)
    command = f"{name} boot" if program is main.FleetApp else f"{name} ledger adopt"
    assert (2, "") == (status, printed)
    said = f"{command}: the following arguments are required: {missing}. See '{command} --help'.\n"
    assert said == refusal
    status, _printed, refusal = type_in(program, "--config-file")
    assert (2, f"{name}: argument --config-file: expected one argument. See '{name} --help'.\n") == (status, refusal)


#: What a shell sends if a variable is not set, and the argument that is then empty.
EMPTY = [
    (("server", "list", "--host", ""), "server list", "--host"),
    (("server", "migrate", "web", "--to", ""), "server migrate", "--to/--host"),
    (("server", "rebuild", "web", "--image="), "server rebuild", "--image"),
    (("boot", "--flavor", "m1", "--group", "", "web"), "boot", "--group"),
    (("boot", "--flavor", "m1", "--availability-zone=", "web"), "boot", "--availability-zone"),
    (("boot", "--flavor", "m1", "--ignore-host", "", "web"), "boot", "--ignore-host"),
    (("image", "create", "--location", "/i", "--checksum", "", "i"), "image create", "--checksum"),
    (("capacity", "--flavor", "m1", "--after-loss-of="), "capacity", "--after-loss-of"),
    (("tolerance", "unset", "--zone", ""), "tolerance unset", "--zone"),
    (("volume", "list", "--project", ""), "volume list", "--project"),
    (("recovery", "pause", ""), "recovery pause", "HOST"),
    (("rebalance", "--apply", "--flavor", ""), "rebalance", "--flavor"),
    (("boot", "--flavor", "m1", "--image", "", "web"), "boot", "--image"),
]


@pytest.mark.parametrize(("argv", "command", "argument"), EMPTY, ids=[f"{each[1]} {each[2]}" for each in EMPTY])
def test_an_empty_argument_is_refused(type_in: Run, argv: tuple[str, ...], command: str, argument: str) -> None:
    """Otherwise a variable that is not set would remove a filter, a destination or a scope."""
    said = f"fleet {command}: argument {argument}: must not be empty. See 'fleet {command} --help'.\n"
    assert (2, "", said) == type_in(main.FleetApp, *argv)


@pytest.mark.parametrize("path", ["/dev/zero", "disk.raw"])
def test_a_file_that_is_too_large_is_not_read(type_in: Run, tmp_path: pathlib.Path, path: str) -> None:
    """A device has no end, and a disk in place of user data would fill the memory."""
    disk = tmp_path / path
    if disk.parent == tmp_path:
        with disk.open("wb") as file:
            file.truncate(2**40)
    said = f"fleet boot: argument --user-data: {disk} has more than 1048576 bytes. See 'fleet boot --help'.\n"
    assert (2, "", said) == type_in(main.FleetApp, "boot", "--flavor", "m1", "--user-data", str(disk), "web")


def test_an_empty_url_is_refused(type_in: Run) -> None:
    """It would send the command to the broker of the configuration file, which may be another fleet's."""
    said = "fleet: argument --url: must not be empty. See 'fleet --help'.\n"
    assert (2, "", said) == type_in(main.FleetApp, "--url", "", "host", "list")


EMPTIED = [
    ("server", "set", "web", "--description", ""),
    ("server", "lock", "web", "--reason", ""),
    ("volume", "set", "data", "--description", ""),
    ("volume", "type", "set", "fast", "--description", ""),
    ("aggregate", "set", "rack7", "--zone", ""),
    ("host", "drain", "host1", "--reason", ""),
    ("host", "disable", "host1", "--reason", ""),
]


@pytest.mark.parametrize("argv", EMPTIED, ids=" ".join)
def test_an_empty_text_that_removes_one_is_accepted(type_in: Run, argv: tuple[str, ...]) -> None:
    """Here the next failure is that nothing is configured."""
    status, _printed, said = type_in(main.FleetApp, *argv)
    assert (1, False) == (status, "must not be empty" in said)


def test_a_command_under_another_name_is_named_as_typed(type_in: Run) -> None:
    """The pointer leads to a help that exists."""
    _status, _printed, refusal = type_in(main.FleetApp, "server", "create", "web")
    assert "See 'fleet server create --help'." in refusal
    status, printed, _said = type_in(main.FleetApp, "server", "create", "--help")
    assert (0, True) == (status, "--flavor" in printed)


@pytest.mark.parametrize(("verbose_level", "shown"), [(1, False), (2, True)])
def test_a_filter_that_raises_shows_its_traceback_to_those_who_ask(verbose_level: int, shown: bool) -> None:
    """A command that plans runs the filters of the user's; its own error says which one raised what."""
    console = logging.StreamHandler(io.StringIO())
    root = logging.getLogger()
    root.addHandler(console)
    try:
        application.quieten(verbose_level)
        logging.getLogger(supervision.__name__).error("Filter Mine raised", exc_info=ValueError("boom"))
    finally:
        root.removeHandler(console)
    assert ("Filter Mine raised", shown) == (
        console.stream.getvalue().splitlines()[0],
        "ValueError: boom" in console.stream.getvalue(),
    )
