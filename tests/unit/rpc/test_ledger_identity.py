# SPDX-License-Identifier: Apache-2.0
"""A message of another ledger is refused, and its caller asks whoever else serves the topic."""

from __future__ import annotations

import logging
import types
from collections.abc import Iterator
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from oslo_messaging import conffixture
from oslo_messaging.rpc import dispatcher

from fleet import conf as fleet_conf
from fleet import context, errors
from fleet.ledger_identity import LedgerIdentity
from fleet.rpc import clients, serializer, transport
from fleet.rpc.server import BaseAPI
from fleet.rpc.trust import admission

OURS, THEIRS = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


class Endpoint:
    def take(self, _context: object) -> str:
        return "taken"


def dispatch(ours: str | None, theirs: str | None, exchanges: tuple[str, str] = ("", ""), **message: Any) -> Any:
    """:param exchanges: the one that the message came through, and the receiver's"""
    sent = serializer.ContextSerializer(LedgerIdentity(uuid=theirs)).serialize_context(context.new_context())
    policy = dispatcher.DefaultRPCAccessPolicy
    endpoints = [Endpoint(), BaseAPI("scheduler")]
    ledger = LedgerIdentity("scheduler", ours)
    receiving = admission.Dispatcher(endpoints, serializer.ContextSerializer(), policy, ledger=ledger)
    body = {"method": "take", "args": {}, **message}
    came_through = dict(zip(("exchange", "own_exchange"), exchanges, strict=True))
    return receiving.dispatch(types.SimpleNamespace(message=body, ctxt=sent, client_timeout=None, **came_through))


TAKEN = [
    ("the same", OURS, OURS),
    ("an older sender", OURS, None),
    ("a receiver that does not know its own yet", None, THEIRS),
]


@pytest.mark.parametrize(("what", "ours", "theirs"), TAKEN, ids=[case[0] for case in TAKEN])
def test_messages_that_are_taken(what: str, ours: str | None, theirs: str | None) -> None:
    assert "taken" == dispatch(ours, theirs)


def test_a_message_of_another_ledger_is_refused_loudly(caplog: pytest.LogCaptureFixture) -> None:
    """The caller gets a typed error with both identities, the log one line at level ERROR."""
    with pytest.raises(dispatcher.ExpectedException) as refused:
        dispatch(OURS, THEIRS)
    kind, error, traceback = refused.value.exc_info
    assert (errors.ForeignLedger, None) == (kind, traceback)
    assert (OURS, THEIRS, "scheduler") == (error.ours, error.theirs, error.service)
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert OURS in line.getMessage()
    assert THEIRS in line.getMessage()


THROUGH = [
    ("its own exchange", None, ("fleet", "fleet")),
    ("the default exchange, as a shovel sends", None, ("", "fleet")),
    ("an earlier exchange of the same fleet", OURS, ("former", "fleet")),
    ("a queue that the receiver has just left", None, ("fleet", "")),
]


@pytest.mark.parametrize(("what", "theirs", "exchanges"), THROUGH, ids=[case[0] for case in THROUGH])
def test_exchanges_whose_messages_are_taken(what: str, theirs: str | None, exchanges: tuple[str, str]) -> None:
    assert "taken" == dispatch(OURS, theirs, exchanges)


@pytest.mark.parametrize("ours", [OURS, None])
def test_a_client_of_another_exchange_is_refused_loudly(ours: str | None, caplog: pytest.LogCaptureFixture) -> None:
    """Its fleet shares a queue with this one. The log names the remedy, and no line can be forged."""
    with pytest.raises(dispatcher.ExpectedException) as refused:
        dispatch(ours, None, ("other\nfleet", "fleet"))
    kind, error, _traceback = refused.value.exc_info
    assert (errors.ForeignExchange, "other\\nfleet", "fleet") == (kind, error.theirs, error.ours)
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert "Exchange other\\nfleet is foreign here: this scheduler serves exchange fleet" in line
    assert "Give each fleet a virtual host of its own" in line


def test_a_ping_is_answered_whoever_asks() -> None:
    """Nothing depends on it."""
    answer = dispatch(OURS, THEIRS, method="ping", namespace="baseapi", args={"arg": 1})
    assert {"service": "scheduler", "arg": 1} == answer


def test_a_ledger_that_is_replaced_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """What is learnt for the first time is no news; another identity is an error in the log, and is gone on with."""
    ledger = LedgerIdentity("conductor")
    for learnt in (None, OURS, OURS, THEIRS, None):
        ledger.learn(learnt)
    assert THEIRS == ledger.uuid
    (line,) = caplog.messages
    assert f"has another ledger now: {THEIRS}, it was {OURS}" in line


REFUSALS = [("one of two servers is foreign", 2, True), ("all are", 10, False)]


@pytest.mark.parametrize(("what", "refused", "answered"), REFUSALS, ids=[case[0] for case in REFUSALS])
def test_another_server_is_asked(
    what: str, refused: int, answered: bool, bus: tuple[Any, cfg.ConfigOpts], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic's servers take turns: the same question is sent again at once, a few times."""
    transport, conf = bus
    asked: list[dict[str, Any]] = []

    def send(_target: object, ctxt: dict[str, Any], *_message: object, **_options: object) -> list[Any]:
        asked.append(ctxt)
        if len(asked) <= refused:
            raise errors.ForeignLedger(ours=THEIRS, theirs=OURS, service="scheduler")
        return []

    monkeypatch.setattr(transport, "_send", send)
    scheduler = clients.SchedulerAPI(transport, conf, ledger=LedgerIdentity(uuid=OURS))
    if answered:
        assert [] == scheduler.select_destinations(context.new_context(), {}, {})
    else:
        with pytest.raises(errors.ForeignLedger):
            scheduler.select_destinations(context.new_context(), {}, {})
        assert 4 == len(asked)
    assert {OURS} == {each[serializer.LEDGER] for each in asked}


@pytest.fixture
def bus() -> Iterator[tuple[oslo_messaging.RPCTransport, cfg.ConfigOpts]]:
    conf = cfg.ConfigOpts()
    fleet_conf.register_opts(conf)
    fixture = conffixture.ConfFixture(conf, transport_url="fake:/")
    fixture.setUp()
    conf([], project="fleet")
    yield transport.get_transport(conf), conf
    fixture.cleanUp()
