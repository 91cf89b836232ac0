# SPDX-License-Identifier: Apache-2.0
"""A fleet in one process and one thread: a real conductor and schedulers over SQLite, the HTTP application before them."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import oslo_messaging
from falcon import testing
from oslo_config import cfg

import conductor_stub.main
import scheduler.main
from conductor_stub.steps.local_placement import LocalPlacement
from fleet import conf as fleet_conf
from fleet.context import RequestContext, new_context
from fleet.db.engine.database import Database
from fleet.db.schema import migration
from fleet.rpc.clients.api import API, Message
from fleet_api.application import application, routes
from fleet_api.own.events import Streams
from fleet_api.own.openapi import Route
from fleet_api.requests.conductor import Conductor
from fleet_trial import trio
from tests.hostile import people
from tests.hostile.inline import inline_transport
from tests.hostile.ledger import Ledger, Rows
from tests.hostile.people import Person

_CONF = """\
[DEFAULT]
transport_url = local://hostile
service_down_time = 86400
allow_resize_to_same_host = true
rpc_response_timeout = 5
[database]
connection = sqlite:///{directory}/fleet.db
[api]
auth_strategy = http_basic
basic_auth_file = {passwords}
projects_file = {projects}
host_names = falconframework.org
"""


class HostileWorld:
    """``conf`` is that of the services, ``client`` sends HTTP requests, ``servers`` are not started."""

    def __init__(self, directory: pathlib.Path, database: Database, conf: cfg.ConfigOpts, keys: Mapping[str, str]):
        self._keys = keys
        self._directory = directory
        self.transport, self.driver = inline_transport(conf)
        self.servers = [
            *conductor_stub.main.build_servers(conf, self.transport, database),
            *scheduler.main.servers(conf, self.transport, database),
        ]
        for each in self.servers:
            if isinstance(each, LocalPlacement):
                # Builds are then handed out, to this thread.
                each.stop()
        self.driver.serve(self.servers)
        self._conf = {"service": conf}
        at_the_door = self._of("client")
        conductor, streams = Conductor(self.transport, at_the_door), Streams(8, None)
        self.routes: list[Route] = routes(conductor, at_the_door, streams)
        # A stream of events ends after its first look.
        streams.close()
        self.client = testing.TestClient(application(conductor, at_the_door, streams))
        self.ledger = Ledger(directory / "fleet.db")

    def _of(self, holder: str) -> cfg.ConfigOpts:
        """The configuration of a holder of a key."""
        if holder not in self._conf:
            self._conf[holder] = _configuration(self._directory, self._keys[holder])
        return self._conf[holder]

    def http(self, person: Person, method: str, path: str, **request: Any) -> testing.Result:
        headers = {**person.headers, **request.pop("headers", {})}
        return self.client.simulate_request(method, path, headers=headers, **request)

    def ask(
        self, holder: str, method: str, namespace: str | None = None, topic: str = "conductor", **given: Any
    ) -> Any:
        """Call a method with the key of ``holder``. :raises Exception: what the method raises"""
        project = people.OURS if holder == "project" else None
        return self.call(holder, context_of(project, "alma", project is None), topic, namespace, method, given)

    def call(
        self,
        holder: str,
        context: RequestContext,
        topic: str,
        namespace: str | None,
        method: str,
        given: Mapping[str, Any],
        version: str = "",
    ) -> Any:
        """:param version: in which the message is sent; the oldest if it is empty"""
        known = contract_of(topic, namespace)
        client: API = type("Client", (API,), {"topic": known, "namespace": namespace})(self.transport, self._of(holder))
        return client._ask(context, Message(method, given, version), **({} if topic == known else {"topic": topic}))

    @contextlib.contextmanager
    def undone(self) -> Iterator[Rows]:
        """Whatever the block changes in the ledger is brought back. Yields the rows before it."""
        before = self.ledger.rows()
        try:
            yield before
        finally:
            self.ledger.restore(before)

    def close(self) -> None:
        self.ledger.close()
        self.transport.cleanup()


def contract_of(topic: str, namespace: str | None) -> str:
    """The topic whose versions count: conductors serve the same contract on several topics."""
    return topic if topic.endswith("scheduler") and namespace is None else "conductor"


def context_of(project: str | None, user: str | None, is_admin: bool) -> RequestContext:
    made = new_context(project, user)
    made.is_admin = is_admin
    return made


def _configuration(directory: pathlib.Path, keys: str) -> cfg.ConfigOpts:
    """All options of all services, with the keys of one holder."""
    arguments = ["--config-file", str(directory / "fleet.conf")]
    register = [trio._register_all]
    conf = fleet_conf.load_config(arguments, "hostile", register=register, conf=cfg.ConfigOpts(), setup_logging=False)
    # oslo.messaging reads them, and registers them with the global configuration only.
    for feature in ("tracing", "metrics"):
        conf.register_opt(cfg.BoolOpt(f"{feature}_enabled", default=False), f"oslo_messaging_{feature}")
    conf.set_override("keys_file", keys, "message_signing")
    return conf


@contextlib.contextmanager
def opened(directory: pathlib.Path) -> Iterator[HostileWorld]:
    passwords, projects = people.write_users(directory)
    path, keys = directory / "fleet.conf", people.write_keys(directory)
    path.write_text(_CONF.format(directory=directory, passwords=passwords, projects=projects))
    path.chmod(0o600)
    conf = _configuration(directory, keys["service"])
    with Database(conf).disposed() as database:
        migration.sync(database)
        with contextlib.closing(HostileWorld(directory, database, conf, keys)) as world:
            yield world


def refusal_of(failure: Exception) -> str:
    """The name of an error that a call was answered with."""
    return str(failure.exc_type) if isinstance(failure, oslo_messaging.RemoteError) else type(failure).__name__
