# SPDX-License-Identifier: Apache-2.0
"""Each daemon has its own database role, broker user and key, which allow only what it needs."""

from __future__ import annotations

import functools
import json
import shlex
import uuid
from collections.abc import Callable, Iterator

import amqp
import oslo_messaging
import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import conf as fleet_conf
from fleet import errors
from fleet.context import new_context
from fleet.rpc import clients, transport
from fleet_trial.private_servers import RabbitMQ
from tests.amqp.daemons import Trio, environment, eventually, running
from tests.amqp.invariants import come_to_rest
from tests.amqp.launched import launcher

NAME = "least_privilege"
ROLES = {"conductor": "lp_conductor", "scheduler": "lp_scheduler"}
HOSTS = ("h1", "h2")
BACKEND = "v1@b"
#: Users of the broker, with the arguments that name them to fleet-manage.
USERS = {
    "conductor": ["conductor"],
    "scheduler": ["scheduler"],
    "client": ["client"],
    **{host: ["compute", "--host", host] for host in HOSTS},
    "v1": ["volume", "--host", BACKEND],
}
#: Lines of their keys' files.
KEYS = {
    "service": f"services service {'s' * 32}",
    "h1": f"agent-1 compute:h1 {'1' * 32}",
    "h2": f"agent-2 compute:h2 {'2' * 32}",
    "v1": f"agent-3 volume:{BACKEND} {'3' * 32}",
    "client": f"people client {'c' * 32}",
    "web": f"scripts project:web {'w' * 32}",
}
SIGNING = "[message_signing]\nkeys_file = {}\n"
#: Of the volume agent; other daemons do not read it.
_STORAGE = "[b]\nvolume_driver = fake\nfake_pools = p:100\n"
Act = Callable[[amqp.Channel], object]


@pytest.fixture(scope="module")
def users(broker: RabbitMQ) -> dict[str, str]:
    """Transport URLs; the first is an administrator's."""
    return {"administrator": broker.vhost(NAME), **broker.add_users(NAME, *USERS)}


@pytest.fixture(scope="module")
def trio(
    tmp_path_factory: pytest.TempPathFactory, postgresql_url: str, broker: RabbitMQ, users: dict[str, str]
) -> Iterator[Trio]:
    """Two agents of one host each."""
    directory = tmp_path_factory.mktemp(NAME)
    owner = sa.make_url(postgresql_url).set(database=NAME)
    execute(sa.make_url(postgresql_url), f"CREATE DATABASE {NAME}")
    for user in USERS:
        lines = [KEYS[user]] if user in KEYS else list(KEYS.values())
        keys = directory / f"{user}.keys"
        keys.write_text("\n".join(lines))
        keys.chmod(0o600)
    url, signing = owner.render_as_string(hide_password=False), SIGNING.format(directory / "client.keys")
    with running(Trio(directory, users["client"], url, more=signing)) as trio:
        trio.manage("db", "sync")
        names = [f"--{service}={role}" for service, role in ROLES.items()]
        printed = trio.manage("db", "grants", f"--database={NAME}", *names)
        execute(owner, *(f"CREATE USER {role}" for role in ROLES.values()), *printed.splitlines())
        permit(
            broker,
            {
                user: trio.manage("rabbitmq", "permissions", *arguments, "--user", user)
                for user, arguments in USERS.items()
            },
        )
        for user, arguments in USERS.items():
            if user != "client":
                state = f"enabled_backends = b\nvolume_state_path = {directory}/v1" if user == "v1" else ""
                state += "enable_new_services = true" if arguments[0] == "conductor" else ""
                state += "\nscheduler_tolerance_interval = 1"
                config = [f"[DEFAULT]\ntransport_url = {users[user]}\nhost = {user}\n{state}\n[database]\nconnection ="]
                config.append(owner.set(username=ROLES.get(user, "nobody")).render_as_string(hide_password=False))
                path = directory / f"{user}.conf"
                signing = SIGNING.format(directory / f"{user}.keys")
                path.write_text(f"{' '.join(config)}\n[health]\nround_trip_interval = 1\n{signing}{_STORAGE}")
                trio.start(user, f"fleet-{arguments[0]}", "--config-file", str(path))
        trio.wait_for_hosts(len(HOSTS))
        trio.wait_for_service("fleet-scheduler")
        require_no_refusal(trio, {})
        yield trio


def permit(broker: RabbitMQ, printed: dict[str, str]) -> None:
    """Give the users what was printed for them: the client by the commands themselves, the others at once.

    A command of rabbitmqctl takes a second of a processor.
    """
    definitions: dict[str, list[dict[str, str]]] = {"permissions": [], "topic_permissions": []}
    for user, lines in printed.items():
        for line in lines.splitlines():
            _program, command, *arguments = shlex.split(line)
            if user == "client":
                broker.ctl(command, *arguments)
                continue
            kind = command.removeprefix("set_")
            names = ("configure", "write", "read") if kind == "permissions" else ("exchange", "write", "read")
            option, vhost, name, *patterns = arguments
            assert ("-p", NAME, user) == (option, vhost, name)
            definitions[kind].append({"user": user, "vhost": NAME, **dict(zip(names, patterns, strict=True))})
    broker.define(**definitions)


def require_no_refusal(trio: Trio, since: dict[str, int]) -> None:
    """:param since: daemon → where in its log to begin"""
    logs = {name: trio.log(name)[since.get(name, 0) :].lower() for name in trio.names()}
    assert {} == {
        name: word for name, log in logs.items() for word in ("denied", "refused", "traceback") if word in log
    }


def execute(url: sa.URL, *statements: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_the_fleet_works(trio: Trio) -> None:
    """Builds, deletions and all operator commands work on every host with these permissions."""
    before = {name: len(trio.log(name)) for name in trio.names()}
    # The scheduler proves it meanwhile.
    trio.operator("set_tolerance", tolerance={"kind": "fleet", "policy": "warn"})
    uuids = trio.boot(name="web", count=4)
    assert {"active"} == set(trio.wait_for(uuids, "active", "error").values())
    assert set(HOSTS) == {trio.show(uuid)["instance"]["host"] for uuid in uuids}
    eventually(lambda: [each for each in trio.operator("list_pools") if each["state"] == "up"])
    (made,) = trio.operator("create_volumes", request={"size": 1})["volumes"]
    eventually(lambda: trio.operator("show_volume", name=made["uuid"])["status"] == "available")
    trio.operator("delete_volume", name=made["uuid"])
    eventually(lambda: not trio.operator("list_volumes"))
    come_to_rest(trio)
    trio.operator("create_aggregate", name="racks", metadata={})
    trio.terminate(uuids)
    eventually(lambda: not trio.operator("list_instances"))
    doctor = trio.cli("doctor", "-f", "json")
    # 1: the hosts are simulated
    assert 1 == doctor.returncode, doctor.stdout
    require_no_refusal(trio, before)


@pytest.fixture
def agent(trio: Trio, users: dict[str, str]) -> Iterator[tuple[oslo_messaging.RPCTransport, cfg.ConfigOpts]]:
    """What an intruder on host h1 has: the agent's broker user and its key."""
    conf = cfg.ConfigOpts()
    fleet_conf.register_opts(conf)
    fixture = conffixture.ConfFixture(conf, transport_url=users["h1"])
    fixture.setUp()
    conf([], project="fleet", default_config_files=[])
    conf.set_override("control_exchange", "fleet")
    conf.set_override("keys_file", str(trio.directory / "h1.keys"), group="message_signing")
    conf.set_override("amqp_durable_queues", True, group="oslo_messaging_rabbit")
    conf.set_override("rabbit_quorum_queue", False, group="oslo_messaging_rabbit")
    bus = transport.get_transport(conf)
    yield bus, conf
    bus.cleanup()
    fixture.cleanUp()


def test_an_agent_speaks_for_its_own_hosts_only(trio: Trio, agent: tuple) -> None:
    """Another host's claim, signed with its own key, is refused to it and in the conductor's log; its own word counts."""
    conductor = clients.ConductorAPI(*agent)
    claim = {"memory_mb": 1, "disk_gb": 0, "vcpus": 1}
    with pytest.raises(errors.NotTrusted) as refused:
        conductor.claim_instance(new_context(), str(uuid.uuid4()), 1, "h2", "h2", "life", claim)
    assert "claim_instance names host h2, key agent-1 is of compute:h1" == refused.value.reason
    assert [] == conductor.get_host_instances(new_context(), "h1")
    with pytest.raises(errors.NotTrusted):
        clients.ComputeTaskAPI(*agent).create(new_context(), {})
    eventually(lambda: "The message is not trusted: claim_instance names host h2" in trio.log("conductor"))


def test_an_order_that_no_conductor_signed_is_refused(trio: Trio, broker: RabbitMQ) -> None:
    """Also one that came by the exchange of the replies, past the broker's permissions."""
    order = {"method": "terminate_instance", "args": {"instance_uuid": str(uuid.uuid4())}, "version": "1.0"}
    body = json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps({**order, "_unique_id": uuid.uuid4().hex})})
    sent = amqp.Message(body, content_type="application/json", content_encoding="utf-8")
    queue = queue_of(broker, "compute.h2")
    assert "done" == said(
        broker, "h1", lambda channel: channel.basic_publish_confirm(sent, exchange="", routing_key=queue)
    )
    eventually(lambda: "The message is not trusted: terminate_instance is not signed" in trio.log("h2"))


def test_a_project_has_a_key_of_its_own(trio: Trio, users: dict[str, str]) -> None:
    """It boots, sees and deletes what is its own, with the broker account that all clients share; without a key, nothing."""
    run = functools.partial(_fleet, trio, users["client"])
    (other,) = trio.boot(name="other")
    sizes = ("--vcpus", "1", "--memory-mb", "64")
    assert 0 == run("client", "flavor", "create", "tiny", *sizes)[0]
    boot = ("boot", "mine", "--flavor", "tiny", "--wait", "--timeout", "60")
    assert (0, True) == (run("web", *boot)[0], "other" in run("client", "server", "list")[1])
    listed = run("web", "server", "list")[1]
    assert (True, False) == ("mine" in listed, "other" in listed)
    assert (True, False) == (
        "ACTIVE" in (whole := run("web", "server", "show", "mine", "-f", "json")[1]),
        "h1" in whole,
    )
    assert "h2" not in whole
    for line in (("server", "show", other), ("server", "delete", "--yes", other)):
        status, said_ = run("web", *line)
        assert (1, True) == (status, "could not be found" in said_), said_
    status, said_ = run("web", "host", "list")
    assert (1, True) == (status, "list_hosts is for the administrator" in said_), said_
    assert 0 == run("web", "server", "delete", "--yes", "mine")[0]
    status, said_ = run("", "server", "list")
    assert (1, True) == (status, "is not signed" in said_), said_
    trio.terminate([other])
    eventually(lambda: not trio.operator("list_instances"))


def _fleet(trio: Trio, url: str, keys: str, *arguments: str) -> tuple[int, str]:
    """Run the command with the keys of a user, or without keys; return its status, and what it has printed."""
    path = trio.directory / f"{keys or 'nobody'}-cli.conf"
    if keys and not (file := trio.directory / f"{keys}.keys").exists():
        file.touch(mode=0o600)
        file.write_text(KEYS[keys])
    signing = SIGNING.format(trio.directory / f"{keys}.keys") if keys else ""
    path.write_text(f"[DEFAULT]\ntransport_url = {url}\n{signing}")
    own = {**environment(), "FLEET_CONFIG_FILE": str(path)}
    done = launcher().run(["fleet", *arguments], own)
    return done.returncode, done.stdout + done.stderr


def consume(queue: str, channel: amqp.Channel) -> None:
    channel.basic_consume(queue, callback=print)


def publish(exchange: str, key: str, channel: amqp.Channel) -> None:
    channel.basic_publish_confirm(amqp.Message("{}"), exchange=exchange, routing_key=key)


def bind(queue: str, exchange: str, key: str, channel: amqp.Channel) -> None:
    channel.queue_bind(queue, exchange, key)


def declare(queue: str, channel: amqp.Channel) -> None:
    channel.queue_declare(queue)


def remove(queue: str, channel: amqp.Channel) -> None:
    channel.queue_delete(queue)


ATTEMPTS: list[tuple[str, str, Act]] = [
    ("an agent takes another's orders", "h1", functools.partial(consume, "compute.h2")),
    (
        "an agent diverts another's orders",
        "h1",
        functools.partial(bind, "compute.h1", "fleet_hosts", "compute.h2"),
    ),
    ("an agent makes a queue of another", "h1", functools.partial(declare, "compute.h2_00ff")),
    ("an agent takes what is for conductors", "h1", functools.partial(consume, "conductor")),
    (
        "an agent listens in on conductors",
        "h1",
        functools.partial(bind, "compute.h1", "fleet", "conductor"),
    ),
    ("an agent asks a scheduler", "h1", functools.partial(publish, "fleet", "scheduler")),
    ("an agent orders another", "h1", functools.partial(publish, "fleet_hosts", "compute.h2")),
    ("an agent deletes another's queue", "h1", functools.partial(remove, "compute.h2")),
    ("a scheduler orders an agent", "scheduler", functools.partial(publish, "fleet_hosts", "compute.h1")),
    ("a scheduler takes an agent's orders", "scheduler", functools.partial(consume, "compute.h1")),
    ("a user takes what is for conductors", "client", functools.partial(consume, "conductor")),
    ("a user takes an agent's orders", "client", functools.partial(consume, "compute.h1")),
    ("a user answers in a service's place", "client", functools.partial(publish, "", "reply_00")),
    ("a user makes a queue", "client", functools.partial(declare, "mine")),
    ("a conductor takes an agent's orders", "conductor", functools.partial(consume, "compute.h1")),
]


def said(broker: RabbitMQ, user: str, act: Act) -> str:
    """The broker's answer to ``act`` of ``user``."""
    password = broker.password if user == "guest" else user
    connection = amqp.Connection(
        f"127.0.0.1:{broker.port}", userid=user, password=password, virtual_host=NAME, confirm_publish=True
    )
    with connection:
        try:
            act(connection.channel())
        except amqp.exceptions.AccessRefused as refused:
            return refused.reply_text
    return "done"


@pytest.mark.parametrize(("what", "user", "act"), ATTEMPTS, ids=[case[0] for case in ATTEMPTS])
def test_what_is_denied(trio: Trio, broker: RabbitMQ, what: str, user: str, act: Act) -> None:
    """What is no service's business it cannot do with its password."""
    assert "ACCESS_REFUSED" in said(broker, user, act)


def test_what_a_service_needs_is_not_denied(trio: Trio, broker: RabbitMQ) -> None:
    """The acts that are refused above succeed for the services that need them."""
    assert ["done", "done", "done"] == [
        said(broker, "h1", functools.partial(publish, "fleet_hosts", "compute.h1")),
        said(broker, "client", functools.partial(publish, "fleet", "conductor")),
        said(broker, "h1", _serve_h1),
    ]


def _serve_h1(channel: amqp.Channel) -> None:
    """As an agent does for each of its connections."""
    channel.queue_declare("compute.h1_00ff", exclusive=True)
    channel.queue_bind("compute.h1_00ff", "fleet_hosts", "compute.h1")


def queue_of(broker: RabbitMQ, key: str) -> str:
    """The queue from which the agent of a host reads its orders now."""
    names = broker.ctl("list_queues", "-p", NAME, "name", "--no-table-headers").split()
    (found,) = [name for name in names if name.startswith(f"{key}_")]
    return found
