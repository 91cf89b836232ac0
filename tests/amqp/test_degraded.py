# SPDX-License-Identifier: Apache-2.0
"""Daemons that are started before their database and broker."""

from __future__ import annotations

import json
import pathlib
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from tests.amqp.daemons import Trio, eventually
from tests.chaos import proxy


@pytest.fixture
def far() -> Iterator[dict[str, proxy.Proxy]]:
    """Filled by the test; stopped after it."""
    proxies: dict[str, proxy.Proxy] = {}
    yield proxies
    for each in proxies.values():
        each.stop()


def behind_proxies(trio: Trio, rabbitmq_url: str, far: dict[str, proxy.Proxy], path: pathlib.Path) -> str:
    """A configuration that reaches broker and database through proxies which refuse every connection."""
    url = sa.make_url(trio.database_url)
    place = url.query.get("host")
    to_database = (
        proxy.to_socket(f"{place}/.s.PGSQL.{url.query.get('port', 5432)}") if place else proxy.to_port(url.port)
    )
    broker_port = int(re.search(r":(\d+)/", rabbitmq_url).group(1))  # type: ignore[union-attr]
    far |= {"database": proxy.Proxy(to_database), "broker": proxy.Proxy(proxy.to_port(broker_port))}
    for each in far.values():
        each.start()
        each.cut(refuse=True)
    here = url.set(host="127.0.0.1", port=far["database"].port, query={}).render_as_string(hide_password=False)
    bus = rabbitmq_url.replace(f":{broker_port}/", f":{far['broker'].port}/")
    path.write_text(f"[DEFAULT]\ntransport_url = {bus}\nhost = late\n[database]\nconnection = {here}\n")
    return str(path)


def health(port: int) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as not_ready:
        return json.load(not_ready)


DAEMONS = {"late-scheduler": "fleet-scheduler", "late-conductor": "fleet-conductor"}


def test_daemons_wait_for_their_database_and_broker(
    trio: Trio, rabbitmq_url: str, far: dict[str, proxy.Proxy], tmp_path: pathlib.Path, health_port: int
) -> None:
    """They run and report that they are not ready. When both answer, they serve without a restart or a traceback."""
    ports = {name: health_port + number for number, name in enumerate(DAEMONS, 4)}
    try:
        config = behind_proxies(trio, rabbitmq_url, far, tmp_path / "late.conf")
        for name, program in DAEMONS.items():
            (tmp_path / f"{name}.conf").write_text(
                f"[health]\nport = {ports[name]}\nservice_offset = 0\nround_trip_interval = 1\n"
            )
            trio.start(name, program, "--config-file", config, "--config-file", str(tmp_path / f"{name}.conf"))
        for name, program in DAEMONS.items():
            eventually(lambda name=name, program=program: f"{program} cannot serve yet" in trio.log(name))  # type: ignore[misc]
            found = eventually(lambda name=name: health(ports[name]), retry_on=OSError)  # type: ignore[misc]
            assert (False, True) == (found["ready"], found["live"])
        far["database"].heal()
        far["broker"].heal()
        for name, program in DAEMONS.items():
            eventually(lambda name=name: health(ports[name])["ready"], retry_on=OSError)  # type: ignore[misc]
            # The daemon logs it after its health page says so.
            eventually(lambda name=name, program=program: f"{program} is ready" in trio.log(name))  # type: ignore[misc]
            assert "Traceback" not in trio.log(name)
    finally:
        for name in DAEMONS:
            trio.stop(name)
            trio.forget(name)
        # Else their records are missed by whoever looks at the fleet's health.
        engine = sa.create_engine(trio.database_url, poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(sa.text("DELETE FROM services WHERE host = 'late'"))
