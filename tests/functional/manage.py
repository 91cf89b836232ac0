# SPDX-License-Identifier: Apache-2.0
"""Runs ``fleet-manage`` on the database of a test."""

from __future__ import annotations

import contextlib
import io
import logging
import pathlib
from collections.abc import Iterator

from oslo_config import cfg

from fleet.db.engine.database import Database
from fleet_cli import manage
from tests.functional import databases


class Manage:
    """Run ``fleet-manage`` with these arguments; return the exit status and the printed lines, errors last."""

    def __init__(self, database: Database | str, directory: pathlib.Path) -> None:
        """``database``: or its URL."""
        self._config = directory / "fleet.conf"
        opened = isinstance(database, Database)
        self.url = databases.url_of(database).render_as_string(hide_password=False) if opened else database
        self.configure(self.url)

    def configure(self, url: str, *lines: str) -> None:
        """:param lines: of the configuration file, more than the database"""
        self._config.write_text("\n".join([f"[database]\nconnection = {url}", *lines, ""]))

    def __call__(self, *argv: str) -> tuple[int, list[str]]:
        printed, complaints = io.StringIO(), io.StringIO()
        with _root_logger(), contextlib.redirect_stderr(complaints), contextlib.redirect_stdout(printed):
            app = manage.ManageApp(cfg.ConfigOpts())
            app.stdout = printed
            try:
                status = app.run(["--config-file", str(self._config), *argv])
            except SystemExit as refused:
                status = int(refused.code or 0)
        return status, (printed.getvalue() + complaints.getvalue()).splitlines()


@contextlib.contextmanager
def _root_logger() -> Iterator[None]:
    """cliff gives the root logger a handler that writes to the stderr of now."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
