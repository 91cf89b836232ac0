# SPDX-License-Identifier: Apache-2.0
"""Calls the conductor for each of several objects, and goes on after a refusal for one of them.

Commands that take several names call it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fleet import errors
from fleet.client import connection
from fleet.client.connection import Record

Found = TypeVar("Found", bound=Record)
Answer = TypeVar("Answer")


def resolved(names: Iterable[str], find: Callable[[str], Found]) -> list[Found]:
    """Return the objects with these names, each once. :raises errors.FleetError: a name has none, and nothing is begun"""
    return list({str(each["uuid"]): each for each in map(find, names)}.values())


def ask(meant: Sequence[Record], call: Callable[[str], Answer]) -> tuple[list[Answer], list[str]]:
    """Call ``call`` with the uuid of each object. Return the answers, and a line for each refusal."""
    accepted: list[Answer] = []
    refused: list[str] = []
    for each in meant:
        try:
            accepted.append(call(str(each["uuid"])))
        except errors.FleetError as refusal:
            only = len(meant) == 1
            refused.append(refusal.message if only else f"{each['name']} ({each['uuid']}): {refusal.message}")
    return accepted, refused


def conclude(meant: Sequence[Record], refused: Sequence[str], *failures: str) -> None:
    """End the command with success, or with the list of failures.

    :param failures: of what was accepted
    :raises connection.CommandFailed: there was a refusal or a failure
    """
    said = list(failures)
    if refused and len(meant) > 1:
        said.append(f"refused: {len(refused)} of {len(meant)}: {'; '.join(refused)}")
    else:
        said += refused
    if said:
        raise connection.CommandFailed("; ".join(said))
