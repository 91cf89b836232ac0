# SPDX-License-Identifier: Apache-2.0
"""The base of commands that check: a line for each finding, and the worst one as exit status.

Called by the modules beside it and those of :mod:`fleet_cli.upkeep`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import Any

from fleet.checks import findings
from fleet.checks.findings import Finding, Level
from fleet_cli.base import listing

COLUMNS = ("check", "result", "found", "fix")
#: Entry points (configuration files) -> findings; ``fleet`` imports no service.
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
    """Check whether each installed service could start with ``files``."""
    return list(_of_services(files))


def _of_services(files: Sequence[str]) -> Iterator[Finding]:
    entries = sorted(metadata.entry_points(group=SERVICE_CHECKS), key=lambda entry: entry.name)
    if not entries:
        yield findings.doubtful("services", "no service is installed here", "Install the package again.")
    for entry in entries:
        yield from entry.load()(files)
