# SPDX-License-Identifier: Apache-2.0
"""A request that a client repeats, or a broker delivers twice, gets the first answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture

from conductor_stub.builds.acceptance import Acceptance, insert_all
from conductor_stub.builds.client_token import ClientToken
from fleet import conf as fleet_conf
from fleet import errors
from fleet.context import new_context
from fleet.db.catalog import quotas
from fleet.db.upkeep import retention
from fleet.objects import BuildRequest, VolumeRequest
from fleet.objects.quota import Quota
from fleet.rpc import clients, transport
from tests.configuration import configuration
from tests.functional import databases
from tests.worlds.conductor import Conductor

SIZES = {"vcpus": 1, "memory_mb": 1024}


HOSTS = ()


def create(
    conductor: Conductor, token: str | None = "mine", project: str | None = "p1", **request: Any
) -> dict[str, Any]:
    asked = BuildRequest.from_wire({"flavor": SIZES, "count": 2, **request})
    return conductor.intake.accept(new_context(project_id=project), asked, token)


def uuids(answer: dict[str, Any]) -> list[str]:
    return [each["uuid"] for each in answer["instances"]]


def count(conductor: Conductor) -> int:
    return len(conductor.operator.list_instances({}))


def test_a_repeated_request_is_answered_as_the_first(conductor: Conductor) -> None:
    """Nothing more is written, and nothing more is handed out."""
    first = create(conductor, name="web")
    assert first == create(conductor, name="web")
    assert (2, 1) == (count(conductor), conductor.work())


def test_what_was_asked_for_may_be_gone(conductor: Conductor) -> None:
    """A deleted instance is still in the answer: its client is to learn what became of its request."""
    first = create(conductor)
    conductor.termination.terminate(new_context(), uuids(first))
    assert first == create(conductor)
    assert 0 == count(conductor)


@pytest.mark.parametrize("project", [None, "p1"])
def test_another_request_under_the_same_token_is_refused(conductor: Conductor, project: str | None) -> None:
    """The error names the field, and the request that has the token."""
    first = create(conductor, project=project)
    with pytest.raises(errors.Conflict, match=f"client_token.*{first['reservation_id']}") as refused:
        create(conductor, project=project, count=1)
    assert 409 == refused.value.code
    assert 2 == count(conductor)


@pytest.mark.parametrize(
    ("what", "other"),
    [("another token", {"token": "other"}), ("another project", {"project": "p2"}), ("none", {"token": None})],
)
def test_other_requests_are_other_requests(conductor: Conductor, what: str, other: dict[str, Any]) -> None:
    """Tokens belong to a project. A request without a token is a new request each time."""
    kept = {key: value for key, value in other.items() if value is None}
    assert uuids(create(conductor, **kept)) != uuids(create(conductor, **other))
    assert 4 == count(conductor)


def test_of_two_conductors_at_once_one_accepts(conductor: Conductor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second has looked before the first has written: the database lets it in only to find what is there."""
    first = create(conductor)
    early = look_too_early(monkeypatch)
    assert first == create(conductor)
    assert [True, False] == early
    assert 2 == count(conductor)


def look_too_early(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """The next look finds no token. Return for each look whether it was that one."""
    look, looks = quotas.look, list[bool]()

    def look_once(*arguments: Any) -> quotas.Found:
        found = look(*arguments)
        looks.append(not looks)
        return found._replace(tokens=frozenset()) if looks[-1] else found

    monkeypatch.setattr(quotas, "look", look_once)
    return looks


def test_requests_with_tokens_are_written_in_one_batch(conductor: Conductor) -> None:
    """Five at once take as many statements as one: all clients send a token with each request."""
    asked = BuildRequest.from_wire({"flavor": {"vcpus": 1, "memory_mb": 64}, "name": "web"})
    of = new_context(project_id="p1")
    took = []
    for number in (1, 5):
        made = [conductor.intake.plan(of, asked) for _ in range(number)]
        written = [
            Acceptance(*planned, ClientToken.of(of, asked.to_wire(), planned[0]["reservation_id"])) for planned in made
        ]
        with databases.statements(conductor.database.engine) as sent:
            assert [None] * number == conductor.database.write(insert_all, written, Quota())
        took.append(len(sent))
    assert took[0] == took[1]


def test_a_token_is_forgotten_with_its_request(conductor: Conductor) -> None:
    """Purged is purged: the same request then builds anew."""
    first = uuids(create(conductor))
    conductor.termination.terminate(new_context(), first)
    conductor.database.write(retention.remove, first)
    assert set(first).isdisjoint(uuids(create(conductor)))


# Volumes


def create_volumes(
    conductor: Conductor, token: str | None = "mine", project: str | None = "p1", **request: Any
) -> list[str]:
    asked = VolumeRequest.from_wire({"size": 1, "count": 2, "name": "v", **request})
    return [each["uuid"] for each in conductor.volume_creation.accept(new_context(project_id=project), asked, token)]


def test_a_repeated_request_for_volumes(conductor: Conductor) -> None:
    """It gets the volumes of the first one, in their order, also deleted ones; nothing more is handed out."""
    first = create_volumes(conductor, count=12)
    assert first == create_volumes(conductor, count=12)
    assert (12, 12) == (len(conductor.operator.list_volumes()), len(conductor.volumes.cast))
    conductor.operator.delete_volume(first[0])
    assert first == create_volumes(conductor, count=12)
    assert 11 == len(conductor.operator.list_volumes())


def test_a_repeated_request_whose_type_is_gone(conductor: Conductor) -> None:
    """It has been answered before: what became of its parts since then does not matter."""
    conductor.operator.create_volume_type({"name": "fast"})
    first = create_volumes(conductor, volume_type="fast")
    conductor.operator.delete_volume_type("fast")
    assert first == create_volumes(conductor, volume_type="fast")
    with pytest.raises(errors.NotFound, match="fast"):
        create_volumes(conductor, volume_type="fast", token="other")


def test_another_request_for_volumes_under_the_same_token(conductor: Conductor) -> None:
    """It is refused, and names a volume of the request that has the token."""
    first = create_volumes(conductor)
    with pytest.raises(errors.Conflict, match=f"client_token.*volume {first[0]}"):
        create_volumes(conductor, size=2)
    assert 2 == len(conductor.operator.list_volumes())


def test_other_requests_for_volumes_are_other_requests(conductor: Conductor) -> None:
    """Tokens belong to a project, and those of builds are not those of volumes. Without a token each request is new."""
    asked: list[dict[str, Any]] = [{}, {"token": "other"}, {"project": "p2"}, {"token": None}, {"token": None}]
    create(conductor)
    assert 10 == len({uuid for each in asked for uuid in create_volumes(conductor, **each)})


def test_a_token_of_volumes_takes_no_query_of_its_own(conductor: Conductor) -> None:
    """All clients send a token with each request."""
    queries = []
    for token in (None, "mine"):
        with databases.statements(conductor.database.engine) as sent:
            create_volumes(conductor, token=token)
        queries.append(sum("SELECT" in each for each in sent))
    assert 0 < queries[0] == queries[1]


def test_of_two_conductors_at_once_one_accepts_the_volumes(
    conductor: Conductor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second has looked before the first has written: the database lets it in only to find what is there."""
    first = create_volumes(conductor)
    early = look_too_early(monkeypatch)
    assert first == create_volumes(conductor)
    assert [True, False] == early
    assert 2 == len(conductor.operator.list_volumes())


# Without a token of the user


class Published:
    """In the broker's place: keeps the arguments of each message."""

    def __init__(self) -> None:
        self.arguments: list[dict[str, Any]] = []

    def __call__(self, _target: Any, _context: object, message: dict[str, Any], **_options: Any) -> Any:
        self.arguments.append(message["args"])
        return {"volumes": [], "instances": []}


@pytest.fixture
def published(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[tuple[Published, oslo_messaging.RPCTransport, cfg.ConfigOpts]]:
    conf = configuration(fleet_conf.register_opts)
    fixture = conffixture.ConfFixture(conf, transport_url="fake:/")
    fixture.setUp()
    bus, broker = transport.get_transport(conf), Published()
    monkeypatch.setattr(bus, "_send", broker)
    yield broker, bus, conf
    fixture.cleanUp()


def test_a_build_whose_message_is_published_twice(conductor: Conductor, published: Any) -> None:
    """A driver does that if it loses the connection before the broker confirms, and two conductors may receive it."""
    broker, bus, conf = published
    tasks = clients.ComputeTaskAPI(bus, conf)
    for _request in range(2):
        tasks.create(new_context(), {"flavor": SIZES, "count": 2})
    once = [uuids(_accepted(conductor, each)) for each in broker.arguments]
    assert once == [uuids(_accepted(conductor, each)) for each in broker.arguments]
    assert 4 == len({*once[0], *once[1]}) == count(conductor)


def _accepted(conductor: Conductor, message: dict[str, Any]) -> dict[str, Any]:
    asked = BuildRequest.from_wire(message["request"])
    return conductor.intake.accept(new_context(project_id="p1"), asked, message.get("client_token"))


@pytest.mark.parametrize("given", [{}, {"client_token": None}])
def test_volumes_whose_message_is_published_twice(conductor: Conductor, published: Any, given: dict[str, None]) -> None:
    broker, bus, conf = published
    operator = clients.OperatorAPI(bus, conf)
    for _request in range(2):
        operator.call(new_context(), "create_volumes", request={"size": 1, "count": 2}, **given)
    for message in broker.arguments * 2:
        asked = VolumeRequest.from_wire(message["request"])
        conductor.volume_creation.accept(new_context(project_id="p1"), asked, message.get("client_token"))
    assert 4 == len(conductor.operator.list_volumes())


@pytest.mark.parametrize(
    ("pin", "request_", "has_token"),
    [("1.1", {}, False), ("1.2", {}, True), ("1.25", {}, True), ("1.25", {"description": "of 1.13"}, True)],
)
def test_a_conductor_that_has_no_tokens_gets_none(
    published: Any, pin: str, request_: dict[str, Any], has_token: bool
) -> None:
    broker, bus, conf = published
    conf.set_override("conductor", pin, group="upgrade_levels")
    clients.ComputeTaskAPI(bus, conf).create(new_context(), {"flavor": SIZES, **request_})
    assert has_token == ("client_token" in broker.arguments[0])
