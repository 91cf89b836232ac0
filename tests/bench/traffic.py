# SPDX-License-Identifier: Apache-2.0
"""What work has cost: processor time by part, messages at the broker, statements and commits at the database."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator, Mapping

import sqlalchemy as sa

from tests.bench import daemons


@dataclasses.dataclass(frozen=True)
class Reading:
    """Counters since the parts began; the difference of two is what happened between."""

    cpu_s: Mapping[str, float]
    published: int
    commits: int

    def since(self, former: Reading) -> Reading:
        return Reading(
            {name: spent - former.cpu_s[name] for name, spent in self.cpu_s.items()},
            self.published - former.published,
            self.commits - former.commits,
        )


def read(here: daemons.Site, parts: Mapping[str, int]) -> Reading:
    """:param parts: process ids by name"""
    return Reading({name: daemons.cpu_s(pid) for name, pid in parts.items()}, _published(here), _commits(here))


def _published(here: daemons.Site) -> int:
    """Messages that clients have published to the broker, answers and fanouts included: the node counts them itself."""
    found = "maps:get(messages_received_total, maps:get([{protocol,amqp091}], rabbit_global_counters:overview()))."
    return int(here.broker.ctl("eval", found))


def _commits(here: daemons.Site) -> int:
    with here.database.engine.connect() as connection:
        # Sessions tell of themselves once in a while; asking for it is what makes this one look anew.
        connection.execute(sa.text("SELECT pg_stat_clear_snapshot()"))
        return connection.execute(
            sa.text("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()")
        ).scalar_one()


@contextlib.contextmanager
def statements(here: daemons.Site) -> Iterator[Callable[[], int]]:
    """Every statement is written to the database's log meanwhile; yields what counts those that there are so far.

    Not while times are taken: it costs some.
    """

    def count() -> int:
        log = pathlib.Path(here.postgresql.place.path("server.log")).read_text(errors="replace")
        return sum(f"LOG:  statement: {verb}" in line for line in log.splitlines() for verb in _VERBS)

    here.postgresql.execute("ALTER SYSTEM SET log_statement = 'all'")
    here.postgresql.execute("SELECT pg_reload_conf()")
    try:
        yield count
    finally:
        here.postgresql.execute("ALTER SYSTEM RESET log_statement")
        here.postgresql.execute("SELECT pg_reload_conf()")


_VERBS = ("SELECT", "INSERT", "UPDATE", "DELETE", "WITH", "EXECUTE")
