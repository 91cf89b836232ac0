# SPDX-License-Identifier: Apache-2.0
"""What commands that check share: a line per finding, and an exit status that says the worst."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from fleet.checks import findings
from fleet.checks.findings import Finding, Level
from fleet.cli import listing

COLUMNS = ("check", "result", "found", "fix")
#: (configuration files) -> findings: whether a service could start. ``fleet`` imports none of them.
SERVICE_CHECKS = "fleet.checks"


class FindingLister(listing.Fitted):
    """Exit status: 0 all is well; 1 warnings; 2 at least one failure."""

    app: Any
    _worst = Level.OK

    def find(self, parsed_args: argparse.Namespace) -> list[Finding]:
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        found = self.find(parsed_args)
        self._worst = findings.worst(found)
        return COLUMNS, [(each.check, each.level.name, each.found, each.fix) for each in found]

    def run(self, parsed_args: argparse.Namespace) -> int:
        super().run(parsed_args)
        return int(self._worst)


def of_services(files: Sequence[str]) -> list[Finding]:
    """Whether each service that is installed here could start with ``files``."""
    return list(_of_services(files))


def _of_services(files: Sequence[str]) -> Iterator[Finding]:
    entries = sorted(metadata.entry_points(group=SERVICE_CHECKS), key=lambda entry: entry.name)
    if not entries:
        yield findings.doubtful("services", "no service is installed here", "Install the package again.")
    for entry in entries:
        yield from entry.load()(files)
