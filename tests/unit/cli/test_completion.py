# SPDX-License-Identifier: Apache-2.0
"""Completion scripts: every command and option there is and no other, values, and names of what there is."""

from __future__ import annotations

import pathlib
import shlex
import shutil
import subprocess
from collections.abc import Sequence

import pytest

from fleet_cli import main
from tests.unit.cli import fakes

CASES = [
    ("fleet ser", "server service"),
    ("fleet server resize ", "confirm revert"),
    ("fleet server list --sta", "--status"),
    ("fleet server list --status A", "ACTIVE"),
    ("fleet group create web --policy anti", "anti-affinity"),
    ("fleet --config-file f server l", "list lock"),
    ("fleet server show ", "db web"),
    ("fleet boot new --flavor ", "db web"),
    ("fleet flavor create ", ""),
    ("fleet nonsense", ""),
]


@pytest.fixture
def script(run, tmp_path: pathlib.Path):
    """Writes the script of a shell, and a program that knows two names in place of ``fleet``."""
    program = tmp_path / "fleet"
    program.write_text('#!/bin/sh\n[ "$1 $2" = "complete --names" ] && echo web && echo db\n')
    program.chmod(0o755)

    def write(shell: str) -> pathlib.Path:
        status, printed, complaints = run(fakes.Conductor(), "complete", "--shell", shell)
        assert (0, "") == (status, complaints)
        path = tmp_path / f"script.{shell}"
        path.write_text(printed)
        return path

    return write


def in_shell(command: list[str], directory: pathlib.Path) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env={"PATH": f"{directory}:/usr/bin:/bin"}
    )
    assert "" == done.stderr
    return " ".join(sorted(done.stdout.split()))


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_bash(script, line: str, expected: str) -> None:
    """As bash calls it; zsh does the same."""
    path = script("bash")
    words = " ".join(f"'{word}'" for word in line.split(" "))
    asked = (
        f'source {path}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}}-1)); _fleet; echo "${{COMPREPLY[@]}}"'
    )
    assert expected == in_shell(["bash", "-c", asked], path.parent)


HOSTILE = ("$(touch made)", "`touch made`", "$HOME", "a b", "*", "it's")


@pytest.mark.parametrize(("typed", "names"), [("", HOSTILE), ("a", ["a b"]), (r"a\ ", ["a b"]), (r"\$\(", HOSTILE[:1])])
def test_names_are_data(script, typed: str, names: Sequence[str]) -> None:
    """A member may call a server as a command: completing its name runs nothing, and neither does the completed line."""
    path = script("bash")
    (path.parent / "fleet").write_text("#!/bin/sh\n" + "".join(f"echo {shlex.quote(each)}\n" for each in HOSTILE))
    asked = (
        f"cd {path.parent}; source {path}; COMP_WORDS=(fleet server show {shlex.quote(typed)}); COMP_CWORD=3; _fleet; "
        "eval \"printf '%s\\n' ${COMPREPLY[*]}\""
    )
    found = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, check=True, env={"PATH": f"{path.parent}:/usr/bin:/bin"}
    )
    assert [*names] == found.stdout.splitlines()
    assert not (path.parent / "made").exists()


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
@pytest.mark.parametrize(("line", "expected"), CASES)
def test_fish(script, line: str, expected: str) -> None:
    """As fish calls it."""
    path = script("fish")
    assert expected == in_shell(["fish", "--no-config", "-c", f"source {path}; complete -C '{line}'"], path.parent)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh(script) -> None:
    """It is sourced without a complaint, and completes with the function of bash."""
    path = script("zsh")
    asked = f"source {path}; COMP_WORDS=(fleet ser); COMP_CWORD=1; whence -w _fleet"
    assert "_fleet: function" == in_shell(["zsh", "-f", "-c", asked], path.parent)


def test_every_command_is_there(script) -> None:
    """And no other."""
    text = script("bash").read_text()
    for name, _factory in main.COMMANDS:
        assert f'"{name}") echo "' in text


@pytest.mark.parametrize("kind", ["server", "host", "flavor", "aggregate", "group"])
def test_names(run, kind: str) -> None:
    """Each once, in order; without an answer there are none, and nothing is said."""
    field = "host" if kind == "host" else "name"
    methods = {"server": "list_instances", "host": "list_hosts", "group": "list_groups"}
    conductor = fakes.Conductor()
    conductor.answers[methods.get(kind, f"list_{kind}s")] = [{field: name} for name in ("web", "db", "web")]
    assert (0, "db\nweb\n", "") == run(conductor, "complete", "--names", kind)
    silent = fakes.Conductor()
    silent.ask = lambda method, **arguments: 1 / 0  # type: ignore[method-assign]
    assert (0, "", "") == run(silent, "complete", "--names", kind)
