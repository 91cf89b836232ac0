# SPDX-License-Identifier: Apache-2.0
"""``python -m tests.screenshots DIRECTORY [--manual DIRECTORY]``: every picture, and copies of those of the manual."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import bcrypt

from fleet_trial import trio_config
from tests.screenshots import pictures, world

_HOSTS = 6
_PASSWORDS = {"root": "of root", "alice": "of alice"}
_PROJECTS = "[root]\nproject = ops\nroles = admin\n[alice]\nproject = shop\nroles = member\n"
_READY_S = 120
#: Pictures that pages of the manual show, in both themes.
MANUAL = ("overview", "map", "project")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.screenshots")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--manual", type=pathlib.Path, help="where the manual has its pictures")
    asked = parser.parse_args()
    asked.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fleet-pictures-") as scratch:
        fleet = pathlib.Path(scratch) / "fleet"
        config = trio_config.write(fleet, _HOSTS)
        _give_passwords(config)
        command = [sys.executable, "-m", "fleet_trial.trio", "up", "--directory", str(fleet)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "FLEET_URL": ""}
        ) as running:
            try:
                url = _url(running)
                for path in pictures.take(url, _PASSWORDS, _filled(url, fleet), asked.directory):
                    print(path, flush=True)
            finally:
                running.terminate()
    if asked.manual:
        asked.manual.mkdir(parents=True, exist_ok=True)
        for name in MANUAL:
            for theme in pictures.THEMES:
                shutil.copy(asked.directory / f"{name}-{theme}.png", asked.manual)
    return 0


def _give_passwords(config: pathlib.Path) -> None:
    """Let users sign in: the picture of a project is a member's."""
    passwords, projects = config.parent / "htpasswd", config.parent / "projects.conf"
    lines = (
        f"{name}:{bcrypt.hashpw(word.encode(), bcrypt.gensalt(10)).decode()}\n" for name, word in _PASSWORDS.items()
    )
    passwords.write_text("".join(lines))
    passwords.chmod(0o600)
    projects.write_text(_PROJECTS)
    options = {
        ("api", "auth_strategy"): "http_basic",
        ("api", "basic_auth_file"): str(passwords),
        ("api", "projects_file"): str(projects),
    }
    config.write_text(trio_config.with_options(config.read_text(), options))


def _url(running: subprocess.Popen[str]) -> str:
    assert running.stdout is not None
    for line in running.stdout:
        if found := re.search(r"http://[\d.]+:\d+", line):
            return found[0]
    raise SystemExit("the trial fleet did not start")


def _filled(url: str, fleet: pathlib.Path) -> dict[str, str]:
    made = world.PicturedFleet(url, ("root", _PASSWORDS["root"]))
    made.fill()
    deadline = time.monotonic() + _READY_S
    while not made.is_settled():
        if time.monotonic() > deadline:
            raise SystemExit(f"builds have not ended after {_READY_S} s")
        time.sleep(0.3)
    made.finish()
    while not made.is_settled():
        time.sleep(0.3)
    world.age(fleet / "fleet.db")
    return {"failed": made.uuid("too-large")}


if __name__ == "__main__":
    sys.exit(main())
