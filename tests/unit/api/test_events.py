# SPDX-License-Identifier: Apache-2.0
"""The stream of events. The conductor is a fake, and time passes when the test lets it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import oslo_messaging
import pytest
from falcon import testing
from oslo_config import cfg

from fleet_api import conf as api_conf
from fleet_api.application import application
from fleet_api.own import events
from fleet_api.requests.faults import Fault
from tests.configuration import configuration
from tests.worlds.http_conductor import HttpConductor

PATH = "/fleet/v1/events"
EVENT = {"kind": "instance", "id": 7, "name": "web", "event": "create", "host": "h1", "message": "on h1"}


class NewsConductor(HttpConductor):
    """``news`` are the answers of ``list_events``, ``states`` those of ``list_host_states``; the last ones are repeated."""

    def __init__(self) -> None:
        super().__init__(list_events=self._list_events, list_host_states=self._list_host_states)
        self.news: list[Any] = []
        self.states: list[dict[str, list[str]]] = [{}, {"h1": ["down", "enabled"], "h2": ["up", "disabled"]}, {}]
        #: Hosts that are up and enabled.
        self.ready = {"h2"}

    def _list_host_states(self, names: list[str] | None = None) -> dict[str, list[str]]:
        if names is None:
            return _following(self.states)
        return {host: ["up", "enabled"] for host in names if host in self.ready}

    def _list_events(self, after: Any = None, last: int = 0, **_filters: Any) -> Any:
        if after is None:
            earlier = [{**EVENT, "id": number} for number in range(7 - last, 7)]
            return {"events": earlier, "position": {"instance": 6, "volume": 0}}
        answer = _following(self.news)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _following(answers: list[Any]) -> Any:
    return answers.pop(0) if len(answers) > 1 else answers[0]


class Looks(events.Streams):
    """Ends the streams after ``looks``."""

    def __init__(self, looks: int) -> None:
        super().__init__(most=2)
        self.looks = looks

    def pause(self) -> bool:
        self.looks -= 1
        return self.looks > 0


@pytest.fixture
def conductor() -> NewsConductor:
    return NewsConductor()


@pytest.fixture
def follow(conductor: NewsConductor) -> Callable[..., list[dict[str, Any]]]:
    """Follows for some looks; returns the events with their ids and kinds."""

    def follow(looks: int, query: str = "", **headers: str) -> list[dict[str, Any]]:
        client = testing.TestClient(application(conductor, _conf(), Looks(looks)))
        answer = client.simulate_get(PATH, query_string=query, headers=headers)
        assert ("text/event-stream", 200) == (answer.headers["Content-Type"].split(";")[0], answer.status_code)
        first, *blocks = answer.text.split("\n\n")
        assert "retry: 3000" == first
        lines = [dict(line.split(": ", 1) for line in block.split("\n")) for block in blocks if block]
        return [{**each, "data": json.loads(each.get("data", "null"))} for each in lines]

    return follow


def _conf() -> cfg.ConfigOpts:
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    return conf


def answer(*found: dict[str, Any], instance: int = 6) -> dict[str, Any]:
    return {"events": list(found), "position": {"instance": instance, "volume": 0}}


def test_an_event_comes_once(conductor: NewsConductor, follow: Callable[..., Any]) -> None:
    """Though the conductor repeats it; its id is where the next stream begins."""
    conductor.news = [answer(EVENT), answer(EVENT), answer(EVENT, {**EVENT, "id": 8}), answer(instance=8)]
    first, second = [each for each in follow(4) if each["event"] == "instance"]
    assert (EVENT, "6.0", 8) == (first["data"], first["id"], second["data"]["id"])


def test_the_last_events_come_first(conductor: NewsConductor, follow: Callable[..., Any]) -> None:
    """Each once, then what happens; a client that comes back gets what it has missed, and not them."""
    conductor.news = [answer({**EVENT, "id": 6}, EVENT), answer(instance=7)]
    told = [each for each in follow(2, "last=3") if each["event"] == "instance"]
    assert [4, 5, 6, 7] == [each["data"]["id"] for each in told]
    # A client that is cut off among them comes back with no id that is behind what it has missed.
    assert [None, None, "6.0", "6.0"] == [each.get("id") for each in told]
    conductor.news = [answer(EVENT)]
    assert [7] == [each["data"]["id"] for each in follow(2, "last=3", **{"Last-Event-ID": "6.0"})]


def test_a_client_comes_back(conductor: NewsConductor, follow: Callable[..., Any]) -> None:
    conductor.news = [answer()]
    follow(1, **{"Last-Event-ID": "3.9"})
    assert [{"instance": 3, "volume": 9}] == conductor.given("list_events", "after")


@pytest.mark.parametrize("header", ["x", "1", "1.2.3", "1.-2", "1.x", "²." + "1"])
def test_ids_that_are_not_ours(conductor: NewsConductor, header: str) -> None:
    client = testing.TestClient(application(conductor, _conf()))
    refused = client.simulate_get(PATH, headers={"Last-Event-ID": header.encode().decode("latin-1")})
    assert 400 == refused.status_code
    assert "Last-Event-ID" in refused.text


def test_hosts(conductor: NewsConductor, follow: Callable[..., Any]) -> None:
    """Only changes: a host that goes down and is taken out, and one that is disabled for a time.

    Only hosts that are down or disabled are read, and those that were: there may be 100,000 others.
    """
    conductor.news = [answer()]
    found = [each["data"] for each in follow(11) if each.get("event") == "host"]
    assert [("h1", "down", "enabled"), ("h2", "up", "disabled"), ("h1", "gone", "gone"), ("h2", "up", "enabled")] == [
        (each["host"], each["state"], each["status"]) for each in found
    ]
    assert {"list_events", "list_host_states"} == {method for method, _arguments in conductor.asked}


@pytest.mark.parametrize("failure", [oslo_messaging.MessagingTimeout("late"), Fault(503, "The broker is away.")])
def test_a_conductor_that_is_away(
    conductor: NewsConductor, follow: Callable[..., Any], caplog: Any, failure: Exception
) -> None:
    """The stream says once that it is away, goes on, also if the broker is known to be away, and says that it is back."""
    conductor.news = [failure, failure, failure, answer(EVENT)]
    assert ["away", "back", "instance"] == [each["event"] for each in follow(4)]
    assert 1 == sum("waits for the conductor" in record.getMessage() for record in caplog.records)
    caplog.clear()


def test_a_comment_shows_that_the_client_is_there(conductor: NewsConductor) -> None:
    conductor.states = [{}]
    conductor.news = [answer()]
    client = testing.TestClient(application(conductor, _conf(), Looks(21)))
    assert 2 == client.simulate_get(PATH).text.count(": nothing new\n\n")


def test_a_client_that_has_gone(conductor: NewsConductor) -> None:
    """Its stream asks for nothing more, and its place is free although nothing was written."""
    conductor.news = [answer()]
    streams = Looks(1000)
    client = testing.TestClient(application(conductor, _conf(), streams))
    looks = iter([False, True])
    client.simulate_get(PATH, extras={"waitress.client_disconnected": lambda: next(looks)})
    assert 998 == streams.looks
    for _place in range(streams.most):
        streams.take("admin")


def test_a_client_too_many(conductor: NewsConductor) -> None:
    """The answer is a failure in the form of all others."""
    streams = Looks(1)
    streams.take("admin")
    streams.take("admin")
    client = testing.TestClient(application(conductor, _conf(), streams))
    refused = client.simulate_get(PATH)
    assert (503, 503) == (refused.status_code, refused.json["serviceUnavailable"]["code"])


def test_there_are_enough_streams() -> None:
    """A place is free again when the server closes a stream, read or not, and when one ends."""
    streams = events.Streams(most=2)

    def hold() -> Iterator[bytes]:
        return events._Held(iter([b"1"]), streams.take("admin"))

    held = [hold(), hold()]
    with pytest.raises(Fault, match="event_streams") as refused:
        hold()
    assert 503 == refused.value.code
    held[0].close()  # type: ignore[attr-defined]
    held[0].close()  # type: ignore[attr-defined]
    assert [b"1"] == list(held[1])
    for _ in range(2):
        hold()
    with pytest.raises(Fault):
        hold()


def test_one_user_leaves_streams_to_others() -> None:
    """A user who has as many as one may have is refused; the others are not, and a place that was left is free."""
    streams = events.Streams(most=5, most_of_user=2)
    taken = [streams.take("alice") for _ in range(2)]
    with pytest.raises(Fault, match="event_streams_per_user") as refused:
        streams.take("alice")
    assert 429 == refused.value.code
    streams.take("bob")
    taken[0].give_back()
    streams.take("alice")
