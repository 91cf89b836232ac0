# SPDX-License-Identifier: Apache-2.0
"""The checks of ``fleet doctor`` for a nova: its databases, each cell, and placement.

``fleet doctor`` loads them by their entry point. Nothing is changed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from oslo_config import cfg

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.db.nova import api_queries
from fleet.db.nova.api_queries import Cell
from fleet.db.nova.database import NovaDatabase
from scheduler import conf as scheduler_conf
from scheduler.nova import conf as nova_conf
from scheduler.nova import nova_options, service
from scheduler.nova.placement import Placement

_DATABASE, _PLACEMENT = "database", "placement"


def examine(conf: cfg.ConfigOpts) -> list[Finding]:
    """Ask each part once."""
    scheduler_conf.register_opts(conf)
    nova_conf.register_opts(conf)
    return list(_examined(conf))


def _examined(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    for sentence in nova_options.unread(conf):
        yield findings.doubtful("options", sentence, "See docs/nova.md.")
    if conf.nova.api_connection:
        yield from _databases(conf)
    else:
        yield findings.bad(_DATABASE, "[nova] api_connection is not set", "Set it: docs/nova.md.")
    if not conf.nova.placement_connection:
        yield findings.doubtful(
            _PLACEMENT,
            "[nova] placement_connection is not set: capacity is that of compute_nodes",
            "Set it: docs/nova.md.",
        )
    else:
        fix = "Check [nova] placement_connection and the grants."
        yield _asked(_PLACEMENT, "its database", lambda: _ping(service.open_placement(conf)), fix)
    if conf.nova.placement == nova_conf.CLAIM:
        yield _asked(_PLACEMENT, "its API", lambda: Placement.from_conf(conf).ping(), "Check section [placement].")


def _databases(conf: cfg.ConfigOpts) -> Iterator[Finding]:
    cells: list[Cell] = []

    def read() -> None:
        api = service.open_api(conf)
        try:
            cells.extend(api.read(api_queries.layout).cells.values())
        finally:
            api.dispose()

    yield _asked(_DATABASE, "nova_api", read, "Check [nova] api_connection and the grants.")
    for cell in cells:
        fix = "Check [nova] cell_connection and the grants. Its hosts are left out meanwhile."
        yield _asked(_DATABASE, f"cell {cell.name}", lambda cell=cell: _ping(service.open_cell(conf, cell)), fix)  # type: ignore[misc]


def _ping(database: NovaDatabase | None) -> None:
    assert database is not None
    try:
        database.read(api_queries.ping)
    finally:
        database.dispose()


def _asked(check: str, what: str, ask: Callable[[], object], fix: str) -> Finding:
    began = time.monotonic()
    try:
        ask()
    except errors.FleetError as failure:
        return findings.bad(check, f"{what}: {failure.message}", fix)
    return findings.good(check, f"{what} answered after {(time.monotonic() - began) * 1000:.0f} ms")
