# SPDX-License-Identifier: Apache-2.0
"""Asks the user before a command does what cannot be undone.

Commands that delete or replay call it, unless ``--yes`` is given.
"""

from __future__ import annotations

import sys

from fleet.client import connection
from fleet_cli.base import listing


def ask(warning: str, question: str, refused: str) -> None:
    """Ask on the terminal.

    :param warning: said, with --yes, where there is no terminal to ask
    :param refused: said if the answer is not yes
    :raises connection.CommandFailed: the answer is not yes, or there is no terminal
    """
    if not sys.stdin.isatty():
        raise connection.CommandFailed(f"{warning}: confirm with --yes")
    listing.remark(f"{question} [y/N]")
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise connection.CommandFailed(refused)
