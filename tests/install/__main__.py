# SPDX-License-Identifier: Apache-2.0
"""Follows the pages one after the other, each in a new root; the exit status says whether all work."""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile

from tests.install import blocks

ROOT = pathlib.Path(__file__).parents[2]
#: Page, and the headings around its commands.
PAGES = (
    ("README.md", "Run it: RabbitMQ and PostgreSQL", "The `openstack` client"),
    ("docs/install.md", "Install", "In containers"),
)
#: What is true of a service that works, whatever page led there.
CHECKS = """
test "$(stat -c '%a %U %G' /etc/fleet/fleet.conf)" = "640 root fleet"
test "$(ps -o user= -C fleet-compute -C fleet-conductor -C fleet-scheduler | sort -u)" = fleet
test "$(fleet service list -f value -c state | sort -u)" = up
test "$(fleet server list -f value -c status | sort -u)" = ACTIVE
test "$(fleet host list -f value -c driver)" = local
rabbitmqctl -q list_queues name type | grep -P '^conductor\\tquorum'
fleet doctor
fleet replay --sample --yes --requests 5 --concurrency 2
fleet server delete --all --yes --wait
man -M /opt/fleet/share/man -w fleet fleet-compute
test -s /opt/fleet/share/fleet/LICENSE
echo 'All works.'
"""


def script(page: str, first: str, last: str) -> str:
    found = blocks.commands((ROOT / page).read_text(), first, last)
    return "\n".join(["#!/bin/bash", "set -ex", *found, CHECKS])


def follow(page: str, first: str, last: str, wheels: pathlib.Path, directory: pathlib.Path) -> bool:
    path = directory / "script"
    path.write_text(script(page, first, last))
    print(f"--- {page}", flush=True)
    return subprocess.run([ROOT / "tests/install/root", ROOT, wheels, path], check=False).returncode == 0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="fleet-install-") as made:
        directory = pathlib.Path(made)
        wheels = directory / "wheels"
        # There is no network in the root: what pip is to find there is fetched before.
        fetch = [sys.executable, "-m", "pip", "wheel", "-q", "--disable-pip-version-check", "-w", str(wheels)]
        subprocess.run(
            [*fetch, "-c", "constraints.txt", ".[postgresql]", "setuptools>=68", "wheel"], cwd=ROOT, check=True
        )
        worked = {page: follow(page, first, last, wheels, directory) for page, first, last in PAGES}
    for page, well in worked.items():
        print(f"{page}: {'works' if well else 'DOES NOT WORK'}")
    return 0 if all(worked.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
