# SPDX-License-Identifier: Apache-2.0
"""Messages are no newer than what may be sent, and what is refused for its version is sent again in an older one."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from fleet import conf as fleet_conf
from fleet import errors
from fleet.context import new_context
from fleet.rpc import clients, transport, versions
from fleet.rpc import pins as pins_module
from fleet.rpc.pins import Pins
from tests.clock import Time

CAPS = [
    ("nothing is known", "auto", {}, "1.6"),
    ("all are new", "auto", {"compute": "1.1"}, "1.1"),
    ("one is old", "auto", {"compute": "1.0"}, "1.0"),
    ("all are newer than we", "auto", {"compute": "1.7"}, "1.6"),
    ("who was asked is too old to know", "auto", None, "1.0"),
    ("what is pinned is not decided", "1.0", {"compute": "1.1"}, "1.0"),
    ("nor mistrusted", "1.1", {"compute": "1.0"}, "1.1"),
]


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    conf = cfg.ConfigOpts()
    fleet_conf.register_opts(conf)
    fixture = conffixture.ConfFixture(conf, transport_url="fake:/")
    fixture.setUp()
    conf([], project="fleet")
    yield conf
    fixture.cleanUp()


class Receiver:
    """In the broker's place: refuses what is newer than ``serves``, and keeps the rest."""

    def __init__(self, serves: str, answer: Any = None) -> None:
        self.serves = serves
        self.answer = answer
        self.taken: list[dict[str, Any]] = []
        self.refused: list[str] = []

    def __call__(self, target: Any, _context: object, message: dict[str, Any], **_options: Any) -> Any:
        if versions.parse(message["version"]) > versions.parse(self.serves):
            self.refused.append(message["version"])
            raise oslo_messaging.RemoteError("UnsupportedVersion", "Endpoint does not support it")
        self.taken.append(message)
        return self.answer


def sending(conf: cfg.ConfigOpts, receiver: Receiver) -> oslo_messaging.RPCTransport:
    bus = transport.get_transport(conf)
    bus._send = receiver
    return bus


@pytest.mark.parametrize(("what", "pin", "lowest", "cap"), CAPS, ids=[case[0] for case in CAPS])
def test_the_newest_that_may_be_sent(
    conf: cfg.ConfigOpts, what: str, pin: str, lowest: Mapping[str, str] | None, cap: str
) -> None:
    """What the configuration names; with ``auto`` what the oldest live service speaks."""
    conf.set_override("compute", pin, group="upgrade_levels")
    pins = Pins(conf)
    pins.learn(lowest)
    assert cap == pins.cap("compute")


@pytest.mark.parametrize(("pin", "sent"), [("1.0", False), ("1.1", True)])
def test_an_argument_that_is_too_new_is_left_out(conf: cfg.ConfigOpts, pin: str, sent: bool) -> None:
    """An agent of the former release gets an order that it understands."""
    conf.set_override("compute", pin, group="upgrade_levels")
    agent = Receiver(pin)
    compute = clients.ComputeAPI(sending(conf, agent), conf)
    compute.build_and_run_instance(new_context(), "h1", instance={}, node="n1", spawn_within_s=5)
    (message,) = agent.taken
    assert (pin, sent) == (message["version"], "spawn_within_s" in message["args"])


@pytest.mark.parametrize(("serves", "sent"), [("4.9", "ignore_hosts"), ("4.10", "within_hosts")])
def test_an_old_scheduler_gets_the_hosts_to_leave_out(conf: cfg.ConfigOpts, serves: str, sent: str) -> None:
    """Also if it was thought to be newer. A new one gets the shorter list, of the hosts that are left."""
    scheduler = Receiver(serves, [])
    api = clients.SchedulerAPI(sending(conf, scheduler), conf)
    lists = {"ignore_hosts": ["h1", "h2"], "within_hosts": ["h3"]}
    api.select_destinations(new_context(), {}, {**lists, "retry": None})
    (message,) = scheduler.taken
    assert {"retry": None, sent: lists[sent]} == message["args"]["filter_properties"]


@pytest.mark.parametrize("lists", [{}, {"within_hosts": ["h3"]}])
def test_an_old_scheduler_gets_no_requested_node(conf: cfg.ConfigOpts, lists: dict[str, Any]) -> None:
    """It would choose another one of the host. A request for a host alone is sent."""
    conf.set_override("scheduler", "4.10", group="upgrade_levels")
    scheduler = Receiver("4.10", [])
    api = clients.SchedulerAPI(sending(conf, scheduler), conf)
    with pytest.raises(errors.VersionPinned):
        api.select_destinations(new_context(), {}, {**lists, "requested_destination": {"host": "h1", "node": "n1"}})
    api.select_destinations(new_context(), {}, {**lists, "requested_destination": {"host": "h1"}})
    assert [{"host": "h1"}] == [each["args"]["filter_properties"]["requested_destination"] for each in scheduler.taken]


def test_what_is_refused_for_its_version_is_asked_again(conf: cfg.ConfigOpts, caplog: Any) -> None:
    """Nothing was done, so nothing is done twice; what comes next is sent in the older version at once."""
    conductor = Receiver("1.0", [])
    api = clients.ConductorAPI(sending(conf, conductor), conf)
    for _report in range(2):
        api.report_hosts(new_context(), [], {"h1": ["n1"]}, {"h1": ""})
    assert (["1.1"], [{"reports": [], "nodes": {"h1": ["n1"]}}] * 2) == (
        conductor.refused,
        [message["args"] for message in conductor.taken],
    )
    (line,) = caplog.messages
    assert "A conductor refuses report_hosts in version 1.1 of its API ([upgrade_levels] conductor = auto)" in line


def test_what_an_old_conductor_serves_goes_on_after_a_refusal(conf: cfg.ConfigOpts) -> None:
    """In a process without heartbeats only refused calls fail. After a minute the client sends the newest version again."""
    time = Time()
    conductor = Receiver("1.23", {})
    pins = Pins(conf, time)
    tasks, operator = (
        made(sending(conf, conductor), conf, pins) for made in (clients.ComputeTaskAPI, clients.OperatorAPI)
    )
    with pytest.raises(errors.VersionPinned, match="create needs version 1.26 of the conductor's API; .* allows 1.25"):
        tasks.create(new_context(), {"requested_host": "h1"})
    tasks.create(new_context(), {"description": "web"})
    with pytest.raises(errors.VersionPinned, match="list_zones needs version 1.25 of the conductor's API"):
        operator.call(new_context(), "list_zones")
    operator.call(new_context(), "list_volumes")
    assert (["1.26", "1.25"], ["1.13", "1.9"]) == (conductor.refused, [each["version"] for each in conductor.taken])
    conductor.serves = "1.26"
    time.sleep(59)
    assert "1.24" == pins.cap("conductor")
    time.sleep(1)
    tasks.create(new_context(), {"requested_host": "h1"})
    assert "1.26" == conductor.taken[-1]["version"]


def test_what_can_be_left_out_is_left_out_at_the_first_refusal(conf: cfg.ConfigOpts) -> None:
    """The call is made in the newest version that is served, with what that version knows."""
    conductor = Receiver("1.15", [])
    operator = clients.OperatorAPI(sending(conf, conductor), conf)
    operator.call(new_context(), "list_instances", brief=True, limit=5)
    assert (["1.16"], [("1.5", {"limit": 5})]) == (
        conductor.refused,
        [(each["version"], each["args"]) for each in conductor.taken],
    )


def test_a_pin_that_is_too_new_is_named(conf: cfg.ConfigOpts, caplog: Any) -> None:
    """Each call fails, as the operator has decided; the log says once why."""
    conf.set_override("conductor", "1.1", group="upgrade_levels")
    api = clients.ConductorAPI(sending(conf, Receiver("1.0")), conf)
    for _report in range(2):
        with pytest.raises(oslo_messaging.RemoteError):
            api.report_hosts(new_context(), [], {}, {})
    (line,) = caplog.messages
    assert "[upgrade_levels] conductor = 1.1). Name an older one, or 'auto'" in line


def test_what_cannot_be_said_in_an_older_version_is_refused(conf: cfg.ConfigOpts) -> None:
    """With the option and the version that is needed; hints, which nobody needs, are not sent at all."""
    conf.set_override("scheduler", "4.0", group="upgrade_levels")
    scheduler = Receiver("4.0")
    api = clients.SchedulerAPI(sending(conf, scheduler), conf)
    with pytest.raises(errors.VersionPinned) as refused:
        api.explain(new_context(), {}, {})
    api.sync_instance_info(new_context(), "h1", [])
    assert "explain needs version 4.2 of the scheduler's API; [upgrade_levels] scheduler = 4.0 allows 4.0." == str(
        refused.value
    )
    assert [] == scheduler.taken


@pytest.mark.parametrize(
    ("request_", "needs"), [({}, None), ({"wait_for_capacity_s": 0}, None), ({"wait_for_capacity_s": 9}, "1.11")]
)
def test_a_build_that_waits_is_not_sent_to_an_older_conductor(
    conf: cfg.ConfigOpts, request_: dict, needs: str | None
) -> None:
    """It would ignore the key, and end the build at once."""
    conf.set_override("conductor", "1.2", group="upgrade_levels")
    conductor = Receiver("1.2")
    api = clients.ComputeTaskAPI(sending(conf, conductor), conf)
    if needs:
        with pytest.raises(errors.VersionPinned, match=f"create needs version {needs} of the conductor's API"):
            api.create(new_context(), request_, "token")
    else:
        api.create(new_context(), request_, "token")
    assert (0 if needs else 1) == len(conductor.taken)


def test_a_conductor_of_the_former_release_is_not_told_of_a_stop_to_come(conf: cfg.ConfigOpts) -> None:
    """It would take a host for gone that still builds."""
    conductor = Receiver("1.0")
    pins = Pins(conf)
    pins.learn({"conductor": "1.0"})
    api = clients.ConductorAPI(sending(conf, conductor), conf, pins)
    api.leave(new_context(), "fleet-compute", ["h1"], "life-one", idle=False)
    api.leave(new_context(), "fleet-compute", ["h1"], "life-one", idle=True)
    assert [{"binary": "fleet-compute", "hosts": ["h1"], "incarnation": "life-one"}] == [
        message["args"] for message in conductor.taken
    ]


def test_steps_of_many_builds_are_not_sent_to_an_older_conductor(conf: cfg.ConfigOpts) -> None:
    """Whether that is known or not: it has done nothing then, and is not asked so again."""
    conductor = Receiver("1.3")
    api = clients.ConductorAPI(sending(conf, conductor), conf)
    assert api.takes_steps()
    with pytest.raises(errors.VersionPinned, match="build_steps needs version 1.4 of the conductor's API"):
        api.build_steps(new_context(), [])
    assert (False, ["1.4"], []) == (api.takes_steps(), conductor.refused, conductor.taken)


def test_steps_of_many_builds_are_not_signed_with_one_key(conf: cfg.ConfigOpts, tmp_path: pathlib.Path) -> None:
    """Which may be of one host only."""
    (tmp_path / "keys").write_text(f"agent-a host:a1 {'a' * 32}\n")
    (tmp_path / "keys").chmod(0o600)
    conf.set_override("keys_file", str(tmp_path / "keys"), group="message_signing")
    assert not clients.ConductorAPI(sending(conf, Receiver("1.4")), conf).takes_steps()


@pytest.mark.parametrize(
    ("pin", "signed", "expected"),
    [("4.3", False, [None]), ("4.2", False, ["a1", "b1"]), ("4.3", True, ["a1", "b1"]), ("4.0", False, [])],
    ids=["together", "an older scheduler", "signed with a host's key", "one that knows no casts"],
)
def test_instances_of_many_hosts_are_told_in_one_cast(
    pin: str, signed: bool, expected: list[str | None], conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> None:
    """Or in one for each host."""
    if signed:
        (tmp_path / "keys").write_text(f"agent-a host:a1,b1 {'a' * 32}\n")
        (tmp_path / "keys").chmod(0o600)
        conf.set_override("keys_file", str(tmp_path / "keys"), group="message_signing")
    conf.set_override("scheduler", pin, group="upgrade_levels")
    scheduler = Receiver(pin)
    infos = [{"host": host, "uuid": uuid} for host, uuid in (("a1", "1"), ("b1", "2"), ("a1", "3"))]
    clients.SchedulerAPI(sending(conf, scheduler), conf).update_instance_info(new_context(), infos)
    assert expected == [message["args"].get("host_name") for message in scheduler.taken]
    told = [info["uuid"] for message in scheduler.taken for info in message["args"]["instance_info"]]
    assert sorted(told) == (["1", "2", "3"] if expected else [])


def test_a_heartbeats_answer_is_followed(conf: cfg.ConfigOpts) -> None:
    """Down and up again, as services come and go; an answer without versions is an old conductor's."""
    conductor = Receiver("1.1")
    pins = Pins(conf)
    api = clients.ConductorAPI(sending(conf, conductor), conf, pins)
    answers = [{"versions": {"scheduler": "4.1"}}, {}, {"versions": {"scheduler": "4.2", "conductor": "1.1"}}]
    caps = []
    for conductor.answer in answers:
        api.report_state(new_context(), "fleet-compute", ["h1"], "life-one", "1.1", "0.1.0")
        caps.append((pins.cap("scheduler"), pins.cap("conductor")))
    newest = versions.CURRENT["conductor"]
    assert [("4.1", newest), ("4.0", "1.0"), ("4.2", "1.1")] == caps


@pytest.mark.parametrize("name", ["liberty", "Kilo"])
def test_a_release_of_nova_is_no_version(tmp_path: pathlib.Path, name: str) -> None:
    """The message says that only versions count, and lists them."""
    path = tmp_path / "fleet.conf"
    path.write_text(f"[upgrade_levels]\nscheduler = {name}\n")
    conf = cfg.ConfigOpts()
    pins_module.register_opts(conf)
    conf(["--config-file", str(path)])
    with pytest.raises(ValueError, match=f"{name} is a release name of nova.*auto, 4.0"):
        _pin = conf.upgrade_levels.scheduler


@pytest.mark.parametrize(("origin", "needs"), [("source", None), ("snapshot", "1.11"), ("image", "1.11")])
def test_a_volume_with_data_is_not_asked_of_an_older_conductor(
    conf: cfg.ConfigOpts, origin: str, needs: str | None
) -> None:
    """It would ignore the key, and make an empty volume."""
    conf.set_override("conductor", "1.10", group="upgrade_levels")
    conductor = Receiver("1.10", {})
    api = clients.OperatorAPI(sending(conf, conductor), conf)
    request = {"size": 1, origin: "data"}
    if needs is None:
        api.call(new_context(), "create_volumes", request=request)
    else:
        with pytest.raises(errors.VersionPinned, match=f"create_volumes needs version {needs}"):
            api.call(new_context(), "create_volumes", request=request)
    assert (needs is None) == bool(conductor.taken)


def test_steps_of_volumes_are_not_sent_to_an_older_conductor(conf: cfg.ConfigOpts) -> None:
    """Agents send each call alone then."""
    conf.set_override("conductor", "1.11", group="upgrade_levels")
    assert not clients.VolumeTaskAPI(sending(conf, Receiver("1.11")), conf).takes_steps()
    conf.clear_override("conductor", group="upgrade_levels")
    assert clients.VolumeTaskAPI(sending(conf, Receiver("1.12")), conf).takes_steps()


def test_a_token_is_not_sent_to_a_conductor_that_would_ignore_it(conf: cfg.ConfigOpts) -> None:
    """It would make the volumes of a repeated request twice. A token that the user has not given is left out there."""
    conductor = Receiver("1.12", {})
    api = clients.OperatorAPI(sending(conf, conductor), conf)
    api.call(new_context(), "create_volumes", request={"size": 1}, client_token="mine")
    conf.set_override("conductor", "1.11", group="upgrade_levels")
    with pytest.raises(errors.VersionPinned):
        api.call(new_context(), "create_volumes", request={"size": 1}, client_token="mine")
    api.call(new_context(), "create_volumes", request={"size": 1})
    assert ["1.12", "1.9"] == [message["version"] for message in conductor.taken]
    assert "client_token" not in conductor.taken[1]["args"]


@pytest.mark.parametrize(("is_public", "version"), [(None, "1.9"), (True, "1.9"), (False, "1.19")])
def test_a_private_type_needs_a_conductor_that_keeps_it_private(
    conf: cfg.ConfigOpts, is_public: bool | None, version: str
) -> None:
    conductor = Receiver("1.19", {})
    api = clients.OperatorAPI(sending(conf, conductor), conf)
    said = {} if is_public is None else {"is_public": is_public}
    api.call(new_context(), "create_volume_type", volume_type={"name": "gold", **said})
    assert [version] == [message["version"] for message in conductor.taken]


@pytest.mark.parametrize(("serves", "sent"), [("1.12", (None, None)), ("1.18", (3, "2026-11-25T06:00:00.000Z"))])
def test_a_power_report_names_its_task(conf: cfg.ConfigOpts, serves: str, sent: tuple[object, object]) -> None:
    """A conductor that does not know the arguments receives the report without them."""
    conf.set_override("conductor", serves, group="upgrade_levels")
    conductor = Receiver(serves, True)
    api = clients.ConductorAPI(sending(conf, conductor), conf)
    assert api.power_done(new_context(), "u1", "h1", "powering-off", 4, "", 3, "2026-11-25T06:00:00.000Z")
    (message,) = conductor.taken
    assert (serves, *sent) == (message["version"], *(message["args"].get(name) for name in ("attempt", "deadline")))


@pytest.mark.parametrize(("status", "version"), [("creating", "1.9"), ("migrating", "1.11"), ("available", "1.11")])
def test_a_report_about_a_newer_status_has_a_newer_version(conf: cfg.ConfigOpts, status: str, version: str) -> None:
    """A conductor that does not know the status refuses the message before it reads it."""
    conductor = Receiver("1.11", {})
    api = clients.VolumeTaskAPI(sending(conf, conductor), conf)
    api.volume_done(new_context(), "u1", 1, "m1@disks", status)
    assert [version] == [message["version"] for message in conductor.taken]


@pytest.mark.parametrize(
    ("pinned", "expected"),
    [
        ("1.16", {"filters": {}, "limit": 5, "brief": True}),
        ("1.15", {"filters": {}, "limit": 5}),
        ("1.4", {"filters": {}}),
    ],
)
def test_an_older_conductor_answers_with_more_than_is_read(
    conf: cfg.ConfigOpts, pinned: str, expected: dict[str, Any]
) -> None:
    """What only makes an answer smaller is left out."""
    conf.set_override("conductor", pinned, group="upgrade_levels")
    conductor = Receiver(pinned)
    clients.OperatorAPI(sending(conf, conductor), conf).call(
        new_context(), "list_instances", filters={}, limit=5, brief=True
    )
    assert [expected] == [message["args"] for message in conductor.taken]


def test_a_number_beyond_64_bits_is_refused_before_it_is_sent(conf: cfg.ConfigOpts) -> None:
    """The receiver would read it as a float. The error names the field."""
    conductor = Receiver("1.16")
    api = clients.ComputeTaskAPI(sending(conf, conductor), conf)
    with pytest.raises(errors.InvalidInput, match="request.scheduler_hints.free must be a whole number"):
        api.create(new_context(), {"scheduler_hints": {"free": 10**30}}, "token")
    assert [] == conductor.taken


@pytest.mark.parametrize(
    ("asked", "pin", "sent"),
    [
        ({}, "1.16", {}),
        ({"networks": "none"}, "1.16", {}),
        ({"networks": "auto"}, "1.16", {}),
        ({"networks": "auto"}, "1.17", {"networks": "auto"}),
        ({"networks": [{"network": "lab"}]}, "1.16", None),
        ({"networks": [{"network": "lab"}]}, "1.17", {"networks": [{"network": "lab"}]}),
    ],
)
def test_networks_of_a_request(conf: cfg.ConfigOpts, asked: Any, pin: str, sent: Any) -> None:
    """A conductor without networks is not asked for one that a request names; ``auto`` means none there."""
    conf.set_override("conductor", pin, group="upgrade_levels")
    conductor = Receiver(pin)
    api = clients.ComputeTaskAPI(sending(conf, conductor), conf)
    if sent is None:
        with pytest.raises(errors.VersionPinned):
            api.create(new_context(), asked)
        return
    api.create(new_context(), asked)
    assert sent == conductor.taken[0]["args"]["request"]


@pytest.mark.parametrize(("pin", "refused"), [("1.4", True), ("1.5", False)])
def test_an_agent_that_is_too_old_for_networks(conf: cfg.ConfigOpts, pin: str, refused: bool) -> None:
    """It gets no guest with an address: it would start it without."""
    conf.set_override("compute", pin, group="upgrade_levels")
    agent = Receiver(pin)
    compute = clients.ComputeAPI(sending(conf, agent), conf)
    order = {"instance": {"interfaces": [{"address": "10.0.0.2"}]}, "spawn_within_s": 5}
    if refused:
        for send in (compute.require_networks, lambda: compute.build_and_run_instance(new_context(), "h1", **order)):
            with pytest.raises(errors.VersionPinned):
                send()
        return
    compute.require_networks()
    compute.build_and_run_instance(new_context(), "h1", **order)
    assert order == agent.taken[0]["args"]


@pytest.mark.parametrize(("serves", "sent"), [("1.23", None), ("1.24", {"h2": "it is down"})])
def test_hosts_that_are_left_out_are_told_where_they_are_kept(conf: cfg.ConfigOpts, serves: str, sent: object) -> None:
    conf.set_override("conductor", serves, group="upgrade_levels")
    conductor = Receiver(serves, {})
    api = clients.OperatorAPI(sending(conf, conductor), conf)
    api.call(new_context(), "create_maintenance", maintenance={"name": "kernel"}, left_out={"h2": "it is down"})
    assert [sent] == [message["args"].get("left_out") for message in conductor.taken]


@pytest.mark.parametrize(("serves", "sent"), [("1.24", None), ("1.25", "p1")])
def test_a_pool_to_remove_volumes_from_is_named_where_that_is_known(
    conf: cfg.ConfigOpts, serves: str, sent: object
) -> None:
    """An older conductor answers about all pools of the backend."""
    conf.set_override("conductor", serves, group="upgrade_levels")
    conductor = Receiver(serves, [])
    api = clients.VolumeTaskAPI(sending(conf, conductor), conf)
    api.get_removable_volumes(new_context(), "m1@store", [], "p1")
    assert [sent] == [message["args"].get("pool") for message in conductor.taken]


@pytest.mark.parametrize(("serves", "sent"), [("1.24", None), ("1.25", True)])
def test_a_deletion_is_forced_where_that_is_known(conf: cfg.ConfigOpts, serves: str, sent: object) -> None:
    """An older conductor waits for the agent of the backend."""
    conf.set_override("conductor", serves, group="upgrade_levels")
    conductor = Receiver(serves, {})
    api = clients.OperatorAPI(sending(conf, conductor), conf)
    api.call(new_context(), "delete_volume", name="data", force=True)
    assert [sent] == [message["args"].get("force") for message in conductor.taken]
