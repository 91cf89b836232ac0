# SPDX-License-Identifier: Apache-2.0
"""Round trips through nova's databases and placement, for the health page. ``service`` hands them to the watchdog."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from fleet import errors
from fleet.db.nova import api_queries
from fleet.db.nova.api_queries import Cell
from fleet.db.nova.database import NovaDatabase
from fleet.telemetry.watchdog import Probe
from scheduler.nova.placement import Placement


def through(
    api: NovaDatabase,
    open_cell: Callable[[Cell], NovaDatabase],
    placement: Placement | None,
    placement_database: NovaDatabase | None,
) -> dict[str, Probe]:
    """Return the probes by the names that the page shows. :param placement: None if nothing is claimed"""
    found: dict[str, Probe] = {"cells": functools.partial(ask_cells, api, open_cell)}
    if placement is not None:
        found["placement"] = placement.ping
    if placement_database is not None:
        found["placement database"] = functools.partial(placement_database.read, api_queries.ping)
    return found


def ask_cells(api: NovaDatabase, open_cell: Callable[[Cell], NovaDatabase]) -> None:
    """Ask the database of each cell that is enabled.

    :raises RuntimeError: none of them answers. Servers of the others are placed while some are silent; the log and
        ``fleet doctor`` name those.
    """
    silent = []
    for cell in api.read(api_queries.cells):
        if cell.disabled:
            continue
        try:
            with _opened(open_cell, cell) as database:
                database.read(api_queries.ping)
        except (errors.DatabaseError, errors.ConfigError) as away:
            silent.append(f"{cell.name}: {away.message}")
        else:
            return
    if silent:
        raise RuntimeError("; ".join(silent))


@contextlib.contextmanager
def _opened(open_cell: Callable[[Cell], NovaDatabase], cell: Cell) -> Iterator[NovaDatabase]:
    database = open_cell(cell)
    try:
        yield database
    finally:
        database.dispose()
