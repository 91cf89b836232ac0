# SPDX-License-Identifier: Apache-2.0
"""Balancing of an aggregate: a lasting imbalance is seen, suggested, run and measured, whichever conductor looks."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import json
import pathlib
import threading
from typing import Any

import oslo_messaging
import pytest
import sqlalchemy as sa

from conductor_stub.balance import reading
from conductor_stub.moves import acceptance
from conductor_stub.steps.balance_settings import BalanceSettings
from fleet import errors, failpoints, states
from fleet.clock import seconds
from fleet.db.engine.database import Database
from fleet.db.operations import balances
from fleet.db.tables import models
from fleet.failpoints import names
from fleet.objects import BuildRequest
from fleet.telemetry import metrics
from tests.functional import databases
from tests.functional.test_maintenance import HOSTS, Stage
from tests.worlds.conductor import BALANCED, context

#: Seconds between two looks, and looks until a hot host counts.
INTERVAL_S, LOOKS = 60, 11


class BalanceStage(Stage):
    """Four hosts in the aggregate ``web``, six guests on h1 and none elsewhere: by memory, h1 is at half of its limit."""

    def __init__(self, database: Database, settings: BalanceSettings | None = None) -> None:
        super().__init__(database, balance=settings)
        self.guests = [self.add("h1") for _number in range(6)]
        operator = self.conductor.operator
        operator.create_aggregate("web", {})
        for host in HOSTS:
            operator.add_aggregate_host("web", host)

    def accept_build(self) -> None:
        """A build that no conductor works on."""
        asked = {"flavor": {"vcpus": 1, "memory_mb": 1024, "root_gb": 10}}
        self.conductor.intake.accept(context("new"), BuildRequest.from_wire(asked))

    def set_mode(self, mode: str) -> None:
        self.conductor.operator.set_aggregate_metadata("web", {"balance": mode})

    def pass_looks(self, number: int = 1) -> None:
        """Let the time of so many looks pass; both conductors look each time."""
        for _number in range(number):
            self.conductor.clock.advance(INTERVAL_S)
            self.beat()
            for each in (self.conductor, self.other):
                each.balance_keeper.go_on()
                each.balance_keeper.look()

    def keep(self) -> None:
        self.conductor.balance_keeper.go_on()
        self.conductor.balance_keeper.look()

    def report_loads(self, host: str, loads: dict[str, float]) -> None:
        """:param loads: cores, by guest"""
        values = {uuid: {"cores": cores} for uuid, cores in loads.items()}
        self.conductor.add_host(host, stats={"live_migration": "fake"}, guest_loads=values)

    def rounds(self) -> list[dict[str, Any]]:
        return self.conductor.operator.list_balance_rounds("web")

    def statuses(self) -> list[str]:
        return [each["status"] for each in self.rounds()]


@pytest.fixture
def stage(database: Database) -> BalanceStage:
    return BalanceStage(database)


def test_nothing_is_looked_at_unless_it_is_wanted(stage: BalanceStage) -> None:
    """A mode that there is none of is refused."""
    stage.pass_looks(LOOKS + 1)
    for mode in ("always", "AUTO"):
        with pytest.raises(
            errors.InvalidInput, match=r"^metadata.balance must be one of suggest, confirm, auto, off, got"
        ):
            stage.set_mode(mode)
        with pytest.raises(errors.InvalidInput):
            stage.conductor.operator.create_aggregate("other", {"balance": mode})
    stage.set_mode("off")
    stage.pass_looks(LOOKS + 1)
    assert ([], "off") == (stage.rounds(), stage.conductor.operator.list_balances()[0]["mode"])


def test_a_look_at_a_fleet_that_is_not_balanced_reads_no_hosts(stage: BalanceStage, database: Database) -> None:
    """It comes every few seconds on each conductor, and a fleet may have 100,000 hosts in aggregates."""
    stage.conductor.operator.set_aggregate_metadata("web", {"ssd": "true"})
    with databases.statements(database.engine) as read:
        stage.keep()
    tables = (models.aggregate_metadata.name, models.aggregate_hosts.name, models.instances.name)
    assert [True, False, False] == [any(table in each for each in read) for table in tables]


def test_what_was_seen_before_it_was_turned_off_is_its_history(stage: BalanceStage) -> None:
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS)
    assert stage.conductor.operator.list_balances()[0]["last"]
    stage.set_mode("off")
    (shown,) = stage.conductor.operator.list_balances()
    assert ("off", {}, None, 1) == (shown["mode"], shown["hot_since"], shown["last"], len(stage.rounds()))
    stage.conductor.operator.pause_balance("web", True)
    assert stage.conductor.operator.list_balances()[0]["paused"]


@pytest.mark.parametrize("end", ["turned off", "deleted"])
def test_an_aggregate_that_is_not_balanced_has_no_metric(stage: BalanceStage, end: str) -> None:
    def is_measured() -> bool:
        """Other tests of this process have measured other aggregates."""
        (metric,) = metrics.BALANCE_ABOVE_MEAN.collect()
        return "web" in [each.labels["aggregate"] for each in metric.samples]

    stage.set_mode("suggest")
    stage.pass_looks()
    assert is_measured()
    if end == "deleted":
        for host in HOSTS:
            stage.conductor.operator.remove_aggregate_host("web", host)
        stage.conductor.operator.delete_aggregate("web")
    else:
        stage.set_mode("off")
    stage.pass_looks()
    assert not is_measured()


def test_moves_under_way_are_shown_though_it_was_turned_off(stage: BalanceStage) -> None:
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 1)
    stage.set_mode("off")
    (shown,) = stage.conductor.operator.list_balances()
    assert ("off", "moving") == (shown["mode"], shown["last"]["status"])


def test_a_lasting_imbalance_is_suggested_once(stage: BalanceStage) -> None:
    """Two conductors write one round; it is kept while it is the same; nothing moves."""
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS - 1)
    assert [] == stage.rounds()
    assert ["h1"] == list(stage.conductor.operator.list_balances()[0]["hot_since"])
    stage.pass_looks(4)
    (found,) = stage.rounds()
    assert ("suggested", [], {"h1"}) == (found["status"], stage.moving(), {each["source"] for each in found["moves"]})
    assert found["seen"]["before"] > found["seen"]["expected"]
    with pytest.raises(errors.Conflict, match="set balance=confirm"):
        stage.conductor.operator.run_balance("web")


def test_a_suggestion_is_run_and_measured(stage: BalanceStage) -> None:
    """The guests go to the hosts of the suggestion; then they stay for their cooldown."""
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS)
    (suggested,) = stage.rounds()
    with pytest.raises(errors.Conflict, match="another suggestion"):
        stage.conductor.operator.run_balance("web", stage.guests[0])
    stage.conductor.operator.run_balance("web", suggested["uuid"])
    stage.pass_looks()
    wanted = [(each["instance_uuid"], each["destination"]) for each in suggested["moves"]]
    assert sorted(uuid for uuid, _host in wanted) == sorted(each["instance_uuid"] for each in stage.moving())
    stage.arrive(*(host for _uuid, host in wanted))
    stage.pass_looks(3)
    # The agents do not measure guests that have just come.
    assert next(each for each in stage.rounds() if each["uuid"] == suggested["uuid"])["after"] is None
    stage.pass_looks(2)
    told = [(event, said["uuid"]) for each in (stage.conductor, stage.other) for event, said in each.notifier.infos]
    assert {("balance.round.suggested", suggested["uuid"]), ("balance.round.done", suggested["uuid"])} <= set(told)
    done = next(each for each in stage.rounds() if each["uuid"] == suggested["uuid"])
    assert ("done", {"done"}) == (done["status"], {each["status"] for each in done["moves"]})
    assert done["after"] == pytest.approx(done["seen"]["expected"])
    with pytest.raises(errors.Conflict, match="has no suggestion"):
        stage.conductor.operator.run_balance("web")


def test_a_round_is_measured_though_another_one_was_seen_meanwhile(database: Database) -> None:
    """One move does not relieve h1, so there is another suggestion before agents have measured what it brought."""
    stage = BalanceStage(database, BalanceSettings(most_moves=1))
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS)
    first = stage.rounds()[0]["uuid"]
    stage.conductor.operator.run_balance("web", first)
    stage.pass_looks()
    stage.arrive(stage.rounds()[0]["moves"][0]["destination"])
    stage.pass_looks(6)
    newest, *_others, made = stage.rounds()
    assert ("suggested", first, "done") == (newest["status"], made["uuid"], made["status"])
    assert made["after"] == pytest.approx(made["seen"]["expected"])


def test_by_itself(stage: BalanceStage) -> None:
    """A move that fails is named; nothing more is begun while moves are under way."""
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 1)
    number = len(stage.moving())
    assert (["moving"], number) == (stage.statuses(), len(stage.rounds()[0]["moves"]))
    stage.pass_looks(3)
    assert (["moving"], number) == (stage.statuses(), len(stage.moving()))


def test_paused(stage: BalanceStage) -> None:
    """Nothing is looked at; afterwards a host must be hot for the whole time anew."""
    stage.set_mode("auto")
    stage.pass_looks(LOOKS - 1)
    assert stage.conductor.operator.pause_balance("web", True)["paused"]
    stage.pass_looks(LOOKS)
    assert [] == stage.rounds()
    stage.conductor.operator.pause_balance("web", False)
    stage.pass_looks(LOOKS - 1)
    assert [] == stage.rounds()
    with pytest.raises(errors.NotFound):
        stage.conductor.operator.pause_balance("nobody", True)


HELD_UP = [
    ("builds are under way", lambda stage: stage.accept_build(), "1 builds are under way"),
    ("a maintenance", lambda stage: (stage.run(["h4"]), stage.look()), "host h4 is in a maintenance"),
    ("the filters", lambda stage: setattr(stage.conductor.scheduler, "refusing", "RamFilter"), "the filters refuse"),
    ("a tolerance", lambda stage: setattr(stage.conductor.scheduler, "refusing", "TOLERANCE"), "cannot go to h"),
]


@pytest.mark.parametrize(("begin", "why"), [case[1:] for case in HELD_UP], ids=[case[0] for case in HELD_UP])
def test_what_holds_moves_up_is_told_and_recorded_once(stage: BalanceStage, begin: Any, why: str) -> None:
    begin(stage)
    stage.other.scheduler.refusing = stage.conductor.scheduler.refusing
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 3)
    (found,) = stage.rounds()
    assert ("nothing", [], []) == (found["status"], found["moves"], stage.moving())
    assert why in found["not_done"]["h1"]


def test_a_scheduler_that_does_not_answer_is_asked_once_a_look(stage: BalanceStage) -> None:
    """Nothing is suggested by then: the guests that were asked about are not those that filters refuse."""
    scheduler = stage.conductor.scheduler
    scheduler.failure = stage.other.scheduler.failure = oslo_messaging.MessagingTimeout("no reply")
    stage.set_mode("auto")
    stage.pass_looks(LOOKS)
    (found,) = stage.rounds()
    assert ("nothing", [], 1) == (found["status"], found["moves"], len(scheduler.explained))
    assert "no scheduler answers: no reply" == found["not_done"]["h1"]
    assert "no scheduler answers: no reply" == stage.conductor.operator.suggest_balance("web")["not_done"]["h1"]
    scheduler.failure = stage.other.scheduler.failure = None
    stage.pass_looks()
    assert "moving" == stage.statuses()[0]


def test_moves_go_on_while_a_look_waits(stage: BalanceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.conductor.operator.create_aggregate("ssd", {"balance": "suggest"})
    found = suggested(stage)
    stage.conductor.operator.run_balance("web", found["uuid"])
    keeper = stage.conductor.balance_keeper
    begun: list[int] = []

    def wait(*_arguments: Any, **_more: Any) -> Any:
        thread = threading.Thread(target=keeper.go_on)
        thread.start()
        thread.join(60)
        begun.append(len(stage.moving()))
        raise errors.NotFound(kind="Aggregate", name="web")

    monkeypatch.setattr(keeper._trying, "round", wait)
    stage.conductor.clock.advance(INTERVAL_S)
    stage.beat()
    keeper.look()
    assert begun
    assert len(found["moves"]) == begun[0]


def test_a_host_that_has_just_gone_silent_holds_moves_up(stage: BalanceStage) -> None:
    """Whatever is there may need the room soon. After some time it is a host like any other that is down."""
    found = suggested(stage)
    clock = stage.conductor.clock
    clock.advance(2 * INTERVAL_S)
    stage.beat(HOSTS[-1])
    why = f"host {HOSTS[-1]} has gone silent"
    with pytest.raises(errors.Conflict, match=why):
        stage.conductor.operator.run_balance("web", found["uuid"])
    assert why in stage.conductor.operator.suggest_balance("web")["not_done"]["h1"]
    clock.advance(balances.SILENT.total_seconds())
    stage.beat(HOSTS[-1])
    assert stage.conductor.operator.suggest_balance("web")["moves"]


def test_what_would_be_done_now(stage: BalanceStage) -> None:
    """Nothing is written, and nothing is waited for."""
    found = stage.conductor.operator.suggest_balance("web")
    assert (None, "suggested", []) == (found["uuid"], found["status"], stage.rounds())
    assert found["moves"]
    with pytest.raises(errors.NotFound):
        stage.conductor.operator.suggest_balance("nobody")


def test_conductors_that_were_away_know_nothing_of_the_time_between(stage: BalanceStage) -> None:
    stage.set_mode("auto")
    stage.pass_looks(2)
    stage.conductor.clock.advance(3600)
    stage.pass_looks()
    assert [] == stage.rounds()


def test_an_aggregate_is_named_by_its_uuid(stage: BalanceStage) -> None:
    """The rows of balancing are those of its name."""
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS)
    operator = stage.conductor.operator
    uuid = operator.show_aggregate("web")["uuid"]
    assert operator.pause_balance(uuid, True)["paused"]
    assert [("web", True)] == [(each["aggregate"], each["paused"]) for each in operator.list_balances()]
    operator.pause_balance(uuid, False)
    assert stage.rounds() == operator.list_balance_rounds(uuid)
    assert "web" == operator.suggest_balance(uuid)["aggregate"] == operator.run_balance(uuid)["aggregate"]


def test_a_guest_that_has_left_meanwhile(stage: BalanceStage) -> None:
    """Its move was predicted from another host; the others go on."""
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS)
    operator = stage.conductor.operator
    (suggested,) = stage.rounds()
    gone = suggested["moves"][0]["instance_uuid"]
    operator.run_balance("web", suggested["uuid"])
    with stage.conductor.database.engine.begin() as connection:
        connection.execute(models.instances.update().where(models.instances.c.uuid == gone).values(host="h3"))
    stage.pass_looks()
    first, *others = stage.rounds()[0]["moves"]
    assert ("failed", "it is on h3 now") == (first["status"], first["why"])
    assert {"moving"} == {each["status"] for each in others}


def suggested(stage: BalanceStage) -> dict[str, Any]:
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS)
    (found,) = stage.rounds()
    return found


def test_a_name_that_is_the_id_of_another_aggregate(stage: BalanceStage) -> None:
    """``web`` is left alone."""
    operator = stage.conductor.operator
    operator.create_aggregate(str(operator.show_aggregate("web")["id"]), {"balance": "auto"})
    stage.pass_looks(LOOKS + 1)
    assert ([], []) == (stage.moving(), operator.list_balance_rounds(None))


def _turn_off(stage: BalanceStage, move: dict[str, Any]) -> None:
    stage.set_mode("off")


def _leave(stage: BalanceStage, move: dict[str, Any]) -> None:
    stage.conductor.operator.remove_aggregate_host("web", move["destination"])


def _purge(stage: BalanceStage, move: dict[str, Any]) -> None:
    """The retention of deleted instances removes rows. Here the round names one that is not there."""
    uuid = models.instances.c.uuid
    renamed = "0" + move["instance_uuid"][1:] if move["instance_uuid"][0] != "0" else "1" + move["instance_uuid"][1:]
    values = {"moves": [{**each, "instance_uuid": renamed if each == move else each["instance_uuid"]} for each in
                        stage.rounds()[0]["moves"]]}  # fmt: skip
    with stage.conductor.database.engine.begin() as connection:
        assert connection.execute(sa.select(uuid).where(uuid == renamed)).first() is None
        connection.execute(models.balance_rounds.update().values(**values))


def _move_there_and_back(stage: BalanceStage, move: dict[str, Any]) -> None:
    """Otherwise it would move three times within its cooldown."""
    guest = move["instance_uuid"]
    for host in ("h3", "h1"):
        stage.conductor.clock.advance(5)
        stage.conductor.operator.live_migrate_instance(guest, host)
        stage.arrive(host)


def _lock(stage: BalanceStage, move: dict[str, Any]) -> None:
    stage.conductor.operator.lock_instance(move["instance_uuid"])


def _delete(stage: BalanceStage, move: dict[str, Any]) -> None:
    deleted = models.instances.update().where(models.instances.c.uuid == move["instance_uuid"])
    with stage.conductor.database.engine.begin() as connection:
        connection.execute(deleted.values(deleted=True, host=None))


NOT_ANY_MORE = [
    (_delete, "it is deleted"),
    (_lock, "is locked"),
    (_turn_off, "balancing was turned off before it began"),
    (_leave, "its hosts are not all in the aggregate now"),
    (_purge, "could not be found"),
    (_move_there_and_back, "has moved since the last look"),
]


@pytest.mark.parametrize(
    ("change", "why"),
    NOT_ANY_MORE,
    ids=["deleted", "locked", "turned off", "a host has left", "the guest is purged", "it has moved"],
)
def test_what_was_decided_holds_when_it_begins(stage: BalanceStage, change: Any, why: str) -> None:
    """The round ends; it does not hold later ones up."""
    found = suggested(stage)
    stage.conductor.operator.run_balance("web", found["uuid"])
    change(stage, found["moves"][0])
    stage.keep()
    first = next(each for each in stage.rounds() if each["uuid"] == found["uuid"])["moves"][0]
    assert "failed" == first["status"]
    assert why in first["why"]


def test_what_began_by_itself_ends_when_an_operator_is_to_decide(
    stage: BalanceStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its conductor has died before the moves began; the mode is confirm now."""
    for each in (stage.conductor, stage.other):
        monkeypatch.setattr(each.balance_keeper, "_move", lambda row: None)
    stage.set_mode("auto")
    stage.pass_looks(LOOKS)
    monkeypatch.undo()
    stage.set_mode("confirm")
    stage.keep()
    (found,) = stage.rounds()
    assert ("done", []) == (found["status"], stage.moving())
    assert {"the mode is confirm now: it does not begin by itself"} == {each["why"] for each in found["moves"]}


@pytest.mark.every_database
def test_rounds_of_two_aggregates_with_the_same_hosts_begin_one_after_the_other(
    stage: BalanceStage, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are confirmed at once: the second waits until the first has begun, and sees it."""
    operator = stage.conductor.operator
    operator.create_aggregate("calm", {"balance": "confirm"})
    for host in HOSTS[:3]:
        operator.add_aggregate_host("calm", host)
    suggested(stage)
    judged, gone_on = threading.Event(), threading.Event()
    lock_all, change = balances.lock_all, balances.change

    def locked(tx: Any, aggregate: str) -> Any:
        if aggregate == "calm":
            gone_on.set()
        return lock_all(tx, aggregate)

    def changed(tx: Any, row: Any, **values: Any) -> None:
        if row.aggregate == "web":
            judged.set()
            # SQLite has one writer: the second transaction has not begun.
            assert gone_on.wait(60) or database.dialect == "sqlite"
        change(tx, row, **values)

    monkeypatch.setattr(balances, "lock_all", locked)
    monkeypatch.setattr(balances, "change", changed)
    if database.dialect == "sqlite":
        gone_on.set()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(operator.run_balance, "web")
        assert judged.wait(60)
        second = pool.submit(stage.other.operator.run_balance, "calm")
        second.add_done_callback(lambda _done: gone_on.set())
        assert "moving" == first.result(60)["status"]
        with pytest.raises(errors.Conflict, match="a round of aggregate web is under way"):
            second.result(60)


def test_points_above_the_mean_of_other_hosts_are_no_effect_of_a_round(stage: BalanceStage) -> None:
    """A host takes no guests meanwhile, so the mean is another one."""
    found = suggested(stage)
    stage.conductor.operator.run_balance("web", found["uuid"])
    stage.pass_looks()
    stage.arrive(*(each["destination"] for each in found["moves"]))
    stage.conductor.operator.update_service(host="h4", binary="fleet-compute", disabled=True, reason="test")
    stage.pass_looks(6)
    made = next(each for each in stage.rounds() if each["uuid"] == found["uuid"])
    assert ("done", None) == (made["status"], made["after"])
    assert "counted" not in made["seen"]


def test_a_suggestion_of_long_ago_is_not_begun(stage: BalanceStage) -> None:
    suggested(stage)
    stage.conductor.clock.advance(30 * 24 * 3600)
    with pytest.raises(errors.Conflict, match="no suggestion of its last looks"):
        stage.conductor.operator.run_balance("web")


def test_a_suggestion_waits_for_builds(stage: BalanceStage) -> None:
    suggested(stage)
    stage.accept_build()
    with pytest.raises(errors.Conflict, match="1 builds are under way"):
        stage.conductor.operator.run_balance("web")


def test_a_repeated_run_is_answered_as_the_first(stage: BalanceStage) -> None:
    found = suggested(stage)
    first = stage.conductor.operator.run_balance("web", found["uuid"])
    assert first == stage.conductor.operator.run_balance("web", found["uuid"])
    with pytest.raises(errors.Conflict, match="is moving guests"):
        stage.conductor.operator.run_balance("web")


def test_a_build_that_waits_for_room_holds_nothing_up(stage: BalanceStage) -> None:
    """It may wait for days."""
    stage.accept_build()
    with stage.conductor.database.engine.begin() as connection:
        changed = sa.update(models.instances).where(models.instances.c.host.is_(None)).values(task_state=states.QUEUED)
        assert 1 == connection.execute(changed).rowcount
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 1)
    assert stage.moving()


def test_a_round_waits_for_a_maintenance_that_began_since(stage: BalanceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its conductor has died before the moves began; they begin when the host is given back in time."""
    for each in (stage.conductor, stage.other):
        monkeypatch.setattr(each.balance_keeper, "_move", lambda row: None)
    stage.set_mode("auto")
    stage.pass_looks(LOOKS)
    monkeypatch.undo()
    stage.run(["h4"])
    stage.look()
    stage.keep()
    assert (["moving"], []) == (stage.statuses(), stage.moving())
    stage.conductor.operator.cancel_maintenance("kernel")
    stage.keep()
    assert stage.moving()


@pytest.mark.parametrize("pinned", [False, True])
def test_a_round_that_does_not_begin_in_time_is_none(
    stage: BalanceStage, monkeypatch: pytest.MonkeyPatch, pinned: bool
) -> None:
    """Its conductor has died, or an agent was too old."""

    def refuse() -> None:
        raise errors.VersionPinned(topic="compute", method="advance_migration", needs="1.4", cap="1.3", pin="auto")

    monkeypatch.setattr(stage.conductor.balance_keeper, "_move", lambda row: None)
    monkeypatch.setattr(stage.other.balance_keeper, "_move", lambda row: None)
    stage.set_mode("auto")
    stage.pass_looks(LOOKS)
    assert ["moving"] == stage.statuses()
    monkeypatch.undo()
    if pinned:
        for each in (stage.conductor, stage.other):
            monkeypatch.setattr(each.compute, "require_live_migration", refuse, raising=False)
        stage.pass_looks(3)
        assert ["moving"] == stage.statuses()
    stage.conductor.clock.advance(5 * INTERVAL_S)
    stage.beat()
    stage.keep()
    (late,) = [each for each in stage.rounds() if each["moves"]]
    assert ("done", []) == (late["status"], stage.moving())
    assert all("did not begin in time" in each["why"] and pinned == ("1.4" in each["why"]) for each in late["moves"])


def test_aggregates_that_share_hosts_take_turns(stage: BalanceStage) -> None:
    stage.conductor.operator.create_aggregate("ssd", {"balance": "auto"})
    for host in HOSTS[:3]:
        stage.conductor.operator.add_aggregate_host("ssd", host)
    stage.set_mode("auto")
    stage.pass_looks(LOOKS)
    moving = [each for each in stage.conductor.operator.list_balance_rounds(None) if each["status"] == "moving"]
    assert 1 == len(moving)


def test_a_move_that_fails_is_not_tried_again_at_once(stage: BalanceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise each look would write a round that fails."""

    def refuses(*_args: object, **_named: object) -> None:
        raise errors.Conflict(kind="Instance", name="x", reason="is refused")

    monkeypatch.setattr(acceptance, "accept", refuses)
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 10)
    tried = [each["instance_uuid"] for found in stage.rounds() for each in found["moves"]]
    assert tried
    assert len(tried) == len(set(tried))


def test_a_suggestion_of_long_ago_that_fails_is_not_made_again_at_once(database: Database) -> None:
    """It was the same suggestion for longer than the cooldown. What counts is when it was tried."""
    stage = BalanceStage(database, BalanceSettings(cooldown_s=600))
    stage.set_mode("confirm")
    stage.pass_looks(LOOKS + 12)
    (found,) = stage.rounds()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "accept", _refuse)
        stage.conductor.operator.run_balance("web", found["uuid"])
        stage.keep()
    stage.pass_looks(3)
    tried = {each["instance_uuid"] for each in found["moves"]}
    later = {each["instance_uuid"] for one in stage.rounds() if one["uuid"] != found["uuid"] for each in one["moves"]}
    assert later
    assert set() == tried & later


def _refuse(*_args: object, **_named: object) -> None:
    raise errors.Conflict(kind="Instance", name="x", reason="is refused")


def test_the_cooldown_begins_when_the_guest_has_arrived(database: Database) -> None:
    """A move may wait long for a slot, and take long."""
    stage = BalanceStage(database, BalanceSettings(cooldown_s=600))
    for guest in stage.guests:
        stage.conductor.operator.live_migrate_instance(guest, "h2")
    stage.conductor.clock.advance(700)
    stage.arrive(*["h2"] * len(stage.guests))
    assert [] == stage.moving()
    stage.beat()
    found = stage.conductor.operator.suggest_balance("web")
    assert [] == found["moves"]
    assert "has moved within its cooldown" in found["not_done"]["h2"]
    stage.conductor.clock.advance(601)
    stage.beat()
    assert stage.conductor.operator.suggest_balance("web")["moves"]


def test_old_rounds_are_removed(stage: BalanceStage, database: Database) -> None:
    """A suggestion of an aggregate that was turned off or deleted is removed, too."""
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS)
    stage.set_mode("off")
    assert ["suggested"] == stage.statuses()
    assert 0 == database.write(balances.remove_old, stage.conductor.clock() + seconds(89 * 86400))
    assert 1 == database.write(balances.remove_old, stage.conductor.clock() + seconds(91 * 86400))
    assert [] == stage.rounds()


def test_an_aggregate_of_the_same_name_begins_anew(stage: BalanceStage) -> None:
    """It is not paused since the former one was, and has none of its rounds."""
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS)
    operator = stage.conductor.operator
    operator.pause_balance("web", True)
    for host in HOSTS:
        operator.remove_aggregate_host("web", host)
    operator.delete_aggregate("web")
    operator.create_aggregate("web", {"balance": "suggest"})
    (shown,) = operator.list_balances()
    assert (False, None, []) == (shown["paused"], shown["last"], stage.rounds())


def test_a_pause_in_the_middle_of_a_look(stage: BalanceStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the look has seen is forgotten like all before the pause."""
    stage.set_mode("auto")
    stage.pass_looks(LOOKS - 2)
    trying = stage.conductor.balance_keeper._trying
    compute = trying.round

    def paused(*arguments: Any, **more: Any) -> Any:
        found = compute(*arguments, **more)
        stage.conductor.operator.pause_balance("web", True)
        stage.conductor.operator.pause_balance("web", False)
        return found

    monkeypatch.setattr(trying, "round", paused)
    stage.pass_looks()
    monkeypatch.undo()
    stage.pass_looks(LOOKS - 2)
    assert [] == stage.rounds()
    stage.pass_looks()
    assert ["moving"] == stage.statuses()


def test_what_is_measured_long_afterwards_is_no_effect_of_a_round(stage: BalanceStage) -> None:
    """Nobody looked meanwhile: guests have come and gone since."""
    found = suggested(stage)
    stage.conductor.operator.run_balance("web", found["uuid"])
    stage.keep()
    stage.arrive(*(each["destination"] for each in found["moves"]))
    stage.keep()
    stage.conductor.operator.pause_balance("web", True)
    stage.pass_looks(30)
    stage.conductor.operator.pause_balance("web", False)
    stage.pass_looks(2)
    (done,) = [each for each in stage.rounds() if each["uuid"] == found["uuid"]]
    assert ("done", None) == (done["status"], done["after"])


@pytest.mark.parametrize("stops", ["pause", "confirm"])
def test_guests_whose_moves_were_not_tried_have_no_cooldown(
    database: Database, monkeypatch: pytest.MonkeyPatch, stops: str
) -> None:
    """An operator pauses balancing, or wants to confirm rounds, before the moves of a round begin."""
    stage = BalanceStage(database)
    with monkeypatch.context() as patched:
        for each in (stage.conductor, stage.other):
            patched.setattr(each.balance_keeper, "_move", lambda _row: None)
        stage.set_mode("auto")
        stage.pass_looks(LOOKS)
    meant = {each["instance_uuid"] for each in stage.rounds()[0]["moves"]}
    if stops == "pause":
        stage.conductor.operator.pause_balance("web", True)
    else:
        stage.set_mode("confirm")
    stage.keep()
    stage.conductor.operator.pause_balance("web", False)
    assert {"failed"} == {each["status"] for each in stage.rounds()[0]["moves"]}
    assert [] == stage.conductor.operator.list_migrations({})
    again = stage.conductor.operator.suggest_balance("web")
    assert meant == {each["instance_uuid"] for each in again["moves"]}


def test_the_busy_guest_moves(database: Database) -> None:
    """Of six guests of one size one keeps its vcpu busy: 4 of 8 processors are used. Loads of guests that are elsewhere, or
    none, change nothing.
    """
    stage = BalanceStage(database, BalanceSettings(least_cpu_load=40))
    busy, nobody = stage.guests[2], "00000000-0000-0000-0000-00000000abcd"
    stage.set_mode("suggest")
    for _look in range(LOOKS):
        stage.report_loads("h1", {**dict.fromkeys(stage.guests, 0.6), busy: 1.0, nobody: 9.0})
        for host in ("h2", "h3", "h4"):
            stage.report_loads(host, {stage.guests[0]: 5.0})
        stage.pass_looks()
    (found,) = stage.rounds()
    assert (4.0, busy) == (found["seen"]["loads"]["h1"] * 8 / 100, found["moves"][0]["instance_uuid"])
    assert {"h1": 50.0, "h2": 0.0, "h3": 0.0, "h4": 0.0} == found["seen"]["loads"]


def test_a_move_that_would_break_a_promise_is_neither_suggested_nor_made(stage: BalanceStage) -> None:
    """Both requests tell the scheduler that the balancer moves the guest."""
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 1)
    moved = [each["destination"] for each in stage.rounds()[0]["moves"]]
    stage.arrive(*moved)
    scheduler = stage.conductor.scheduler
    for asked in (scheduler.explained, scheduler.requests[-len(moved) :]):
        assert (True, {True}) == (len(asked) >= len(moved) > 0, {properties["promised"] for _spec, properties in asked})


@pytest.mark.parametrize(
    ("rule", "other", "refused"),
    [
        pytest.param({"policy": "soft-affinity"}, "h2", ["h3", "h4"], id="together in a rack"),
        pytest.param({"policy": "soft-anti-affinity"}, "h3", ["h3"], id="apart from a rack"),
        pytest.param({"policy": "soft-spread"}, "h3", ["h3"], id="spread over racks"),
        pytest.param({"policy": "should", "values": ["r1"]}, "h3", ["h3", "h4"], id="in one rack"),
        pytest.param({"policy": "soft-anti-affinity"}, "h2", [], id="no rack is worse"),
    ],
)
def test_soft_rules_over_labels_are_kept(
    stage: BalanceStage, database: Database, rule: dict[str, Any], other: str, refused: list[str]
) -> None:
    """h1 and h2 are in rack r1, h3 is in r2, and h4 has no rack. A guest of h1 is in a group with one on another host."""
    operator = stage.conductor.operator
    for host, rack in {"h1": "r1", "h2": "r1", "h3": "r2"}.items():
        operator.set_host_labels(host, {"rack": rack})
    group = operator.create_group("masters", "none", rules=[{**rule, "label": "rack"}])["uuid"]
    member = stage.add("h1", scheduler_hints={"group": group})
    stage.add(other, scheduler_hints={"group": group})
    seen = database.read(reading.read, "web", BALANCED, stage.conductor.clock(), 60)
    (guest,) = [each for each in seen.guests if each.uuid == member]
    assert refused == [host for host in HOSTS[1:] if reading.soft_refusal(seen, guest, host)]


def test_loads_of_a_later_release_are_read(stage: BalanceStage) -> None:
    """A conductor of it has stored them while this one is not upgraded yet. Neither is a damaged entry in the way."""
    busy = stage.guests[2]
    stage.report_loads("h1", {busy: 1.0})
    loads = {busy: {"cores": 1.0, "lasting": None, "memory_mb": None, "iops": 7}, stage.guests[0]: "nothing"}
    with stage.conductor.database.engine.begin() as connection:
        connection.execute(models.guest_loads.update().where(models.guest_loads.c.host == "h1").values(loads=loads))
    stage.set_mode("suggest")
    stage.pass_looks()
    assert stage.conductor.operator.list_balances()[0]["looked_at"]
    assert 12.5 == stage.conductor.operator.suggest_balance("web")["seen"]["loads"]["h1"]


def test_a_host_is_judged_when_its_guests_are_measured(stage: BalanceStage) -> None:
    """A guest has just come: until its agent has measured it, the host counts as less loaded than it is."""
    stage.set_mode("suggest")
    stage.report_loads("h1", dict.fromkeys(stage.guests, 1.0))
    for host in HOSTS[1:]:
        stage.report_loads(host, {})
    came = stage.conductor.clock()
    assert "its guests have changed" in stage.conductor.operator.suggest_balance("web")["not_done"]["h1"]
    found = stage.conductor.database.read(balances.changed_since, HOSTS, came)
    assert {"h1": came} == found
    stage.pass_looks(3)
    stage.report_loads("h1", dict.fromkeys(stage.guests, 1.0))
    assert stage.conductor.operator.suggest_balance("web")["moves"]


def test_both_hosts_of_a_move_have_changed(stage: BalanceStage) -> None:
    stage.set_mode("auto")
    stage.pass_looks(LOOKS + 1)
    since = stage.conductor.clock()
    destinations = {each["destination"] for each in stage.rounds()[0]["moves"]}
    stage.arrive(*destinations)
    assert dict.fromkeys({"h1", *destinations}, since) == stage.conductor.database.read(
        balances.changed_since, HOSTS, since
    )


def test_a_renamed_aggregate_keeps_what_is_known(stage: BalanceStage) -> None:
    """A host that is hot stays hot, and the history is that of the aggregate, not of its name."""
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS - 2)
    stage.conductor.operator.rename_aggregate("web", "www")
    stage.pass_looks(2)
    assert 1 == len(stage.conductor.operator.list_balance_rounds("www"))
    stage.conductor.operator.rename_aggregate("www", "web")
    assert 1 == len(stage.rounds())
    with pytest.raises(errors.NotFound):
        stage.conductor.operator.list_balance_rounds("www")


def test_the_rounds_of_a_former_aggregate_are_not_those_of_a_later_one(stage: BalanceStage) -> None:
    """Neither shown nor begun: it had other hosts."""
    stage.set_mode("suggest")
    stage.pass_looks(LOOKS)
    assert 1 == len(stage.rounds())
    for host in ("h1", "h2", "h3", "h4"):
        stage.conductor.operator.remove_aggregate_host("web", host)
    stage.conductor.operator.delete_aggregate("web")
    stage.conductor.operator.create_aggregate("www", {"balance": "suggest"})
    stage.conductor.operator.rename_aggregate("www", "web")
    assert [] == stage.rounds()


@pytest.mark.on_sqlite
@pytest.mark.parametrize(
    ("point", "action"),
    [
        *((f"{step}.after_commit", "raise") for step in names.BALANCE_TRANSACTIONS),
        *(
            pytest.param(f"{step}.before_commit", "raise", marks=pytest.mark.long)
            for step in names.BALANCE_TRANSACTIONS
        ),
        *((f"{step}.after_commit", "disconnect") for step in names.BALANCE_TRANSACTIONS),
    ],
)
def test_a_failure_in_any_transaction_moves_no_guest_twice(
    database: Database, points: pathlib.Path, caplog: pytest.LogCaptureFixture, point: str, action: str
) -> None:
    """A conductor that fails there goes on at its next look, and a transaction whose outcome is unknown is repeated."""
    stage = BalanceStage(database, BalanceSettings(most_moves=1))
    stage.set_mode("auto")
    points.write_text(json.dumps({point: {"action": action, "times": 1}}))
    for _look in range(3 * LOOKS):
        with contextlib.suppress(failpoints.FailpointReached):
            stage.pass_looks()
        stage.conductor.move_sweeper.sweep()
        stage.arrive(*(each["destination"] for each in stage.rounds()[0]["moves"]) if stage.moving() else ())
        if "done" in stage.statuses():
            break
    assert f"Failpoint {point}: {action}" in caplog.messages
    begun = [each for each in stage.rounds() if each["status"] in ("moving", "done")]
    planned = [(each["instance_uuid"], each["migration"]) for found in begun for each in found["moves"]]
    made = [(each["instance_uuid"], each["uuid"]) for each in stage.conductor.operator.list_migrations({})]
    assert sorted(planned) == sorted(made)
    assert len(made) == len({uuid for uuid, _migration in made}) == len(begun)


def test_a_look_has_as_many_statements_for_few_hosts_as_for_many(stage: BalanceStage, database: Database) -> None:
    operator = stage.conductor.operator
    operator.create_aggregate("few", {})
    operator.add_aggregate_host("few", "h1")
    statements: collections.Counter[str] = collections.Counter()
    aggregate = "few"

    def count(*_executed: Any) -> None:
        statements[aggregate] += 1

    sa.event.listen(database.engine, "after_cursor_execute", count)
    for aggregate in ("few", "web"):
        seen = database.read(reading.read, aggregate, BALANCED, stage.conductor.clock(), 60)
        assert set(stage.guests) == {each.uuid for each in seen.guests}
    sa.event.remove(database.engine, "after_cursor_execute", count)
    assert statements["few"] == statements["web"]
