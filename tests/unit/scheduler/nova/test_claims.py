# SPDX-License-Identifier: Apache-2.0
"""Claims against a placement that behaves as the real one: generations, capacity, conflicts."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from urllib import parse

import pytest

from fleet import errors
from scheduler.nova import answer, decoder
from scheduler.nova.claims import Claims, allocation, resources_of
from scheduler.nova.placement import Placement, PlacementFailed
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, flavor, message

A, B = uuid(101), uuid(102)
SERVER, OTHER = uuid(1), uuid(2)
_CONCURRENT = {"errors": [{"code": "placement.concurrent_update", "title": "Conflict"}]}
_FULL = {"errors": [{"code": "placement.undefined_code", "title": "Conflict"}]}


@dataclasses.dataclass
class Answer:
    """``body`` is text if it is no JSON."""

    status_code: int
    body: object = None

    def json(self):
        if isinstance(self.body, str):
            raise ValueError("no JSON")
        return self.body


def candidates(providers):
    """What placement answers for providers that are compute nodes themselves."""
    amounts = {"resources": {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}
    return {
        "allocation_requests": [{"allocations": {each: amounts}, "mappings": {"": [each]}} for each in providers],
        "provider_summaries": {each: {"root_provider_uuid": each} for each in providers},
    }


class FakeAdapter:
    """Placement's allocations: ``room`` is the VCPU of each provider; ``disturb`` runs before each PUT."""

    def __init__(self, **room):
        self.room = {A: 4, B: 4, **room}
        self.held = {}
        self.generations = {}
        self.disturb = lambda: None
        self.down = False
        self.unknown = set()
        self.calls = []

    def request(self, path, method, microversion, raise_exc, json=None):
        self.calls.append((method, path))
        assert ("1.36", False) == (microversion, raise_exc)
        if self.down:
            return Answer(503, {"errors": [{"title": "Service Unavailable"}]})
        return getattr(self, method.lower())(path, json)

    def get(self, path, _body):
        if path.startswith("/allocation_candidates"):
            offered = [
                each for each in self.room if self.room[each] - self._used(each) > 0 and each not in self.unknown
            ]
            return Answer(200, candidates(offered))
        if path.startswith("/resource_providers"):
            return Answer(200, {"resource_providers": [{"uuid": A, "parent_provider_uuid": None}]})
        consumer = path.rpartition("/")[2]
        held = {each: {"resources": dict(amounts)} for each, amounts in self.held.get(consumer, {}).items()}
        known = {"consumer_generation": self.generations[consumer]} if held else {}
        return Answer(200, {"allocations": held, **known})

    def put(self, path, body):
        self.disturb()
        consumer = path.rpartition("/")[2]
        assert {"allocations", "consumer_generation", "project_id", "user_id"} == set(body)
        if body["consumer_generation"] != (self.generations.get(consumer) if self.held.get(consumer) else None):
            return Answer(409, _CONCURRENT)
        wanted = {each: amounts["resources"] for each, amounts in body["allocations"].items()}
        for provider, amounts in wanted.items():
            if provider in self.unknown:
                return Answer(400, {"errors": [{"title": "Bad Request"}]})
            if self._used(provider, but=consumer) + amounts["VCPU"] > self.room[provider]:
                return Answer(409, _FULL)
        assert 0 not in [amount for amounts in wanted.values() for amount in amounts.values()]
        self.held[consumer] = wanted
        self.generations[consumer] = self.generations.get(consumer, 0) + 1
        return Answer(204)

    def _used(self, provider, but=None):
        return sum(held.get(provider, {}).get("VCPU", 0) for each, held in self.held.items() if each != but)


def _claims(adapter, request=None) -> Claims:
    return Claims(Placement(adapter), request or _request(), "p1", "u1")


def _request(**fields):
    return decoder.decode(arguments(**fields)).request


def _move(name="req_evacuate"):
    return decoder.decode(message(name)["args"]).request


@pytest.mark.parametrize(
    ("changed", "wanted"),
    [
        ({}, {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}),
        ({"flavor": flavor(swap=1)}, {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 2}),  # rounded up to whole GB
        ({"flavor": flavor(ephemeral_gb=3, swap=2048)}, {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 6}),  # 1 + 3 + 2
        ({"is_bfv": True}, {"VCPU": 1, "MEMORY_MB": 512}),  # no root disk, and no amount of zero
    ],
)
def test_what_an_instance_takes(changed, wanted):
    """As nova-scheduler counts it."""
    assert wanted == resources_of(_request(**changed))


def test_a_build_is_claimed_with_one_call():
    """A new instance holds nothing that would have to be read."""
    adapter = FakeAdapter()
    assert _claims(adapter).claim(SERVER, A)
    assert {SERVER: {A: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}} == adapter.held
    assert [("PUT", f"/allocations/{SERVER}")] == adapter.calls


def test_a_full_provider():
    """Means the next candidate."""
    adapter = FakeAdapter(**{A: 0})
    claims = _claims(adapter)
    assert (None, allocation(_request(), B)) == (claims.claim(SERVER, A), claims.claim(SERVER, B))
    assert [B] == list(adapter.held[SERVER])


def test_a_claim_that_a_lost_answer_has_left():
    """Of a build is found, and replaced if the node is claimed all the same."""
    adapter = FakeAdapter()
    _claims(adapter).claim(SERVER, A)
    claims = _claims(adapter)
    assert (None, [A]) == (claims.claim(SERVER, B), list(claims.found[SERVER]))
    assert claims.claim(SERVER, B)
    assert [B] == list(adapter.held[SERVER])


def test_an_evacuation_holds_both_hosts():
    """Until the source comes back, as with nova-scheduler."""
    adapter = FakeAdapter()
    _claims(adapter).claim(SERVER, A)
    assert _claims(adapter, _move()).claim(SERVER, B)
    assert {A, B} == set(adapter.held[SERVER])


def test_a_move_to_the_same_provider():
    """Keeps what is held there, as nova-scheduler does."""
    adapter = FakeAdapter()
    _claims(adapter).claim(SERVER, A)
    before = adapter.held[SERVER]
    assert _claims(adapter, _move("req_resize")).claim(SERVER, A)
    assert before == adapter.held[SERVER]


def test_a_cold_move():
    """The conductor has moved the old allocation to the migration: the instance holds nothing."""
    adapter = FakeAdapter()
    assert _claims(adapter, _move("req_resize")).claim(SERVER, B)
    assert {B: {"VCPU": 2, "MEMORY_MB": 2048, "DISK_GB": 2}} == adapter.held[SERVER]


def test_failure_of_a_later_instance():
    """Gives back what the earlier ones hold, and only that."""
    adapter = FakeAdapter()
    adapter.held[OTHER], adapter.generations[OTHER] = {A: {"VCPU": 1}}, 3
    claims = _claims(adapter)
    claims.claim(SERVER, A)
    claims.claim(uuid(3), B)
    claims.give_back()
    assert {OTHER: {A: {"VCPU": 1}}} == {consumer: held for consumer, held in adapter.held.items() if held}


def test_failure_of_an_evacuation():
    """Leaves the source's allocation."""
    adapter = FakeAdapter()
    _claims(adapter).claim(SERVER, A)
    claims = _claims(adapter, _move())
    claims.claim(SERVER, B)
    claims.give_back()
    assert [A] == list(adapter.held[SERVER])


def test_somebody_else_writes_the_same_consumer():
    """The claim is tried again with what is there now."""
    adapter = FakeAdapter()

    def disturb():
        adapter.disturb = lambda: None
        adapter.held[SERVER], adapter.generations[SERVER] = {A: {"VCPU": 1}}, 7

    adapter.disturb = disturb
    assert _claims(adapter, _move()).claim(SERVER, B)
    assert {A, B} == set(adapter.held[SERVER])


def test_somebody_else_writes_all_the_time():
    """After some attempts another host is tried."""
    adapter = FakeAdapter()

    def disturb():
        adapter.held[SERVER] = {A: {"VCPU": 1}}
        adapter.generations[SERVER] = adapter.generations.get(SERVER, 0) + 1

    adapter.disturb = disturb
    assert not _claims(adapter, _move()).claim(SERVER, B)


def test_placement_is_away():
    """The request ends with an error that says so; nothing of the answer's text is shown but its title."""
    adapter = FakeAdapter()
    adapter.down = True
    with pytest.raises(PlacementFailed) as failed:
        _claims(adapter).claim(SERVER, A)
    assert "503 (Service Unavailable)" in failed.value.message


def test_give_back_while_placement_is_away(caplog):
    """The log names what remains; the request's own error is not replaced."""
    adapter = FakeAdapter()
    claims = _claims(adapter)
    claims.claim(SERVER, A)
    adapter.down = True
    claims.give_back()
    assert SERVER in caplog.text


@pytest.mark.parametrize(("name", "before"), [("req_build_1", []), ("req_evacuate", [A])])
def test_the_answer_to_a_claim_is_lost(name, before):
    """Placement has written the allocation, and a proxy answers 504: what the claim has added is given back."""
    adapter = FakeAdapter()
    for provider in before:
        _claims(adapter).claim(SERVER, provider)
    claims, put = _claims(adapter, _move(name)), adapter.put

    def lose_the_answer(path, body):
        adapter.put = put
        put(path, body)
        return Answer(504)

    adapter.put = lose_the_answer
    with pytest.raises(PlacementFailed):
        claims.claim(SERVER, B)
    assert [*before, B] == sorted(adapter.held[SERVER])
    claims.give_back()
    assert before == list(adapter.held[SERVER])


def test_traits():
    """One query names the required and the forbidden ones."""
    adapter = FakeAdapter()
    assert {A} == Placement(adapter).providers_with(frozenset({"HW_A"}), frozenset({"HW_B"}))
    [(_method, path)] = adapter.calls
    assert {"required": ["HW_A,!HW_B"]} == parse.parse_qs(parse.urlsplit(path).query)


@pytest.mark.parametrize("name", ["A#", "A&required=B", "A%2CB", "A B", "Ä"])
def test_a_trait_of_an_image_is_no_part_of_the_query(name):
    """Whoever may upload images names traits: a name must not replace those of the flavor."""
    adapter = FakeAdapter()
    Placement(adapter).providers_with(frozenset({name, "CUSTOM_LICENSED"}), frozenset({"COMPUTE_STATUS_DISABLED"}))
    [(_method, path)] = adapter.calls
    found = parse.parse_qs(parse.urlsplit(path).query)
    wanted = ",".join([*sorted([name, "CUSTOM_LICENSED"]), "!COMPUTE_STATUS_DISABLED"])
    assert ({"required": [wanted]}, True) == (found, path.isascii())


def test_a_trait_that_placement_does_not_know():
    """Is the request's fault."""

    class Refusing(FakeAdapter):
        def get(self, path, _body):
            return Answer(400, {"errors": [{"title": "Bad Request"}]})

    with pytest.raises(errors.InvalidInput):
        Placement(Refusing()).providers_with(frozenset({"NONSENSE"}), frozenset())


def test_the_answers_allocation_request_is_what_is_claimed():
    """A reschedule of nova claims the alternate with it."""
    found = answer.Found("h", "n", B, "c", "z", request=allocation(_request(), B))
    sent = answer.selections([[found]])[0][0]["nova_object.data"]["allocation_request"]
    assert {B: {"resources": resources_of(_request())}} == json.loads(sent)["allocations"]


@pytest.mark.parametrize("status", [400, 404])
def test_a_provider_that_placement_does_not_know(status):
    """Concerns this host only: another one takes the instance."""
    adapter = FakeAdapter()
    adapter.put = lambda path, body: Answer(status) if A in body["allocations"] else Answer(204)
    claims = _claims(adapter)
    assert (None, allocation(_request(), B)) == (claims.claim(SERVER, A), claims.claim(SERVER, B))
    assert {A} == claims.unknown


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_an_answer_about_placement_itself_ends_the_request(status):
    adapter = FakeAdapter()
    adapter.put = lambda path, body: Answer(status)
    with pytest.raises(PlacementFailed):
        _claims(adapter).claim(SERVER, A)


PROVIDER = {"root_provider_uuid": A}
WRONG = {
    "a page of a proxy": "<html>",
    "a list": [],
    "nothing": None,
    "an object of something else": {"message": "welcome"},
    "allocations without amounts": {"allocations": {A: {}}, "consumer_generation": 1},
    "a provider without a uuid": {"resource_providers": [{"name": "n1"}]},
    "candidates without their providers": {**candidates([A]), "provider_summaries": {}},
    "candidates without amounts": {
        "allocation_requests": [{"allocations": {A: None}, "mappings": {}}],
        "provider_summaries": {A: PROVIDER},
    },
}


@pytest.mark.parametrize("body", WRONG.values(), ids=WRONG)
def test_an_answer_that_is_none_of_placement(body):
    """Such as that of a proxy: it is not taken for one, and no call fails in another way than while placement is away."""
    adapter = FakeAdapter()
    adapter.get = lambda path, _body: Answer(200, body)
    placement = Placement(adapter)
    calls = [
        lambda: placement.allocations(SERVER),
        lambda: placement.providers_with(frozenset({"HW_A"}), frozenset()),
        lambda: placement.offers("resources=VCPU:1"),
        placement.out_of_scope,
        placement.ping,
    ]
    failures = []
    for call in calls:
        with contextlib.suppress(PlacementFailed):
            failures.append(call())
    assert [] == failures


@pytest.mark.parametrize("body", ["<html>", {"errors": 5}, {"errors": ["no"]}, {"errors": None}, []])
def test_a_refusal_that_says_nothing(body):
    adapter = FakeAdapter()
    adapter.put = lambda path, _body: Answer(409, body)
    assert _claims(adapter).claim(SERVER, A) is None
