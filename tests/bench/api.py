# SPDX-License-Identifier: Apache-2.0
"""What HTTP adds: a request for a server beside the same RPC call, lists out of many servers, and the page with many hosts.

Both kinds of requests are sent in turns by one client, so that they meet the same machine. Every part is a real daemon.
"""

from __future__ import annotations

import functools
import re
import socket
import statistics
from typing import Any

import requests
import sqlalchemy as sa
from oslo_config import cfg
from playwright import sync_api

from fleet import conf as fleet_conf
from fleet.clock import utcnow
from fleet.context import new_context
from fleet.db.engine.database import Database
from fleet.db.tables import models
from fleet.rpc import transport
from fleet.rpc.clients import ComputeTaskAPI, OperatorAPI
from tests import browsers
from tests.bench import figures, ledger
from tests.bench.daemons import site

ROUNDS = 150
SERVERS = 100_000
PAGE = 1000
LISTS = 20
HOSTS = 10_000
PAGES = 5
_PART = 10_000
_MANY = r"[1-9]\d,?\d{3}"
#: A view of the page, an element, and what it says when its figures are there.
_VIEWS = (
    ("overview", "#status", f"{_MANY} hosts"),
    ("map", "#status", f"{_MANY} hosts"),
    ("instances", ".pager", r"of 1\d\d,\d{3}"),
    ("hosts", ".pager", f"of {_MANY}"),
    ("events", "#events tbody", "create"),
)
_DEFAULT = """\
compute_driver = fake
report_interval = 60
rpc_response_timeout = 60
instances_path = {directory}/instances
"""
_MORE = "[fake]\nvcpus = 64\nmemory_mb = 262144\nlocal_gb = 2000\n[conductor]\nworkers = 1\n[api]\nport = {port}\n"


def run() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with site() as here:
        config = here.config("api", _DEFAULT.format(directory=here.directory), _MORE.format(port=port))
        with (
            here.daemon("conductor", "conductor_stub.main", config),
            here.daemon("scheduler", "scheduler.main", config),
            here.daemon("agent", "compute_agent.main", config, "--hosts", "host[0001-0100]"),
            here.daemon("api", "fleet_api.main", config),
        ):
            _create(config, f"http://127.0.0.1:{port}")
            _fill(here.database, SERVERS)
            _list(f"http://127.0.0.1:{port}")
            ledger.fill(here.database, HOSTS)
            _page(f"http://127.0.0.1:{port}")


def _create(config: str, url: str) -> None:
    """A build by RPC, and a server by HTTP with a flavor that has a record, as HTTP asks for."""
    conf = fleet_conf.load_config(["--config-file", config], prog="bench", conf=cfg.CONF)
    bus = transport.get_transport(conf)
    try:
        tasks, asked = ComputeTaskAPI(bus, conf), new_context()
        flavor = {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "flavorid": "1"}
        OperatorAPI(bus, conf).call(asked, "create_flavor", flavor=flavor)
        body = {"server": {"name": "bench", "flavorRef": "1", "networks": "none"}}
        with requests.Session() as session:

            def post() -> None:
                answer = session.post(f"{url}/v2.1/servers", json=body, timeout=60)
                assert requests.codes.accepted == answer.status_code, answer.text

            def call() -> None:
                tasks.create(asked, {"name": "bench", "flavor": "tiny"})

            took: dict[str, list[float]] = {"rpc": [], "http": []}
            for _round in range(ROUNDS):
                took["rpc"].append(figures.timed(call))
                took["http"].append(figures.timed(post))
    finally:
        bus.cleanup()
        cfg.CONF.reset()
    rpc, http = (figures.Times(took[name]) for name in ("rpc", "http"))
    ratio = statistics.median(b / a for a, b in zip(took["rpc"], took["http"], strict=True))
    figures.report("api-create", way="rpc", **rpc.to_line())
    figures.report("api-create", way="http", of_rpc=round(ratio, 2), **http.to_line())


def _fill(database: Database, servers: int) -> None:
    """Insert rows as builds leave them; no agent has these servers."""
    spec = {
        "flavor": {"name": "tiny", "vcpus": 1, "memory_mb": 64, "root_gb": 1, "flavorid": "1", "id": 1},
        "image": {},
        "scheduler_hints": {},
        "metadata": {},
        "availability_zone": "nova",
    }
    now = utcnow()
    with database.engine.begin() as connection:
        connection.execute(
            models.build_requests.insert(), {"reservation_id": "r-many", "spec": spec, "created_at": now}
        )
        for first in range(0, servers, _PART):
            connection.execute(models.instances.insert(), [_row(first + number, now) for number in range(_PART)])
        connection.execute(sa.text("ANALYZE"))


def _row(number: int, now: Any) -> dict[str, Any]:
    names = {"uuid": f"{number:08x}-0000-4000-8000-000000000000", "name": f"many-{number}", "reservation_id": "r-many"}
    return {**names, "vm_state": "active", "attempt": 1, "created_at": now, "host": None}


def _list(url: str) -> None:
    for path in ("/servers", "/servers/detail"):
        with requests.Session() as session:

            def look(session: requests.Session = session, path: str = path) -> int:
                answer = session.get(f"{url}/v2.1{path}?limit={PAGE}", timeout=60)
                assert PAGE == len(answer.json()["servers"]), answer.text[:500]
                return len(answer.content)

            size = look()
            figures.report(
                "api-list", path=path, servers=SERVERS, page=PAGE, bytes=size, **figures.repeat(look, LISTS).to_line()
            )


def _page(url: str) -> None:
    """Open each view in a browser that has nothing in its cache, until it shows its figures."""
    if browsers.find() is None:
        figures.report("api-page", skipped="chromium is not installed")
        return
    with sync_api.sync_playwright() as driver:
        browser = browsers.launch(driver)

        def look(view: str, selector: str, text: str) -> None:
            tab = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            tab.goto(f"{url}/ui/#{view}")
            sync_api.expect(tab.locator(selector).first).to_contain_text(re.compile(text), timeout=60_000)
            if view == "map":
                tab.focus("canvas")
                tab.keyboard.press("ArrowRight")
                sync_api.expect(tab.locator("#details h2")).not_to_be_empty(timeout=60_000)
            tab.close()

        for view, selector, text in _VIEWS:
            times = figures.repeat(functools.partial(look, view, selector, text), PAGES)
            figures.report("api-page", view=view, hosts=HOSTS, **times.to_line())
        browser.close()
