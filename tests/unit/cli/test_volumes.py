# SPDX-License-Identifier: Apache-2.0
"""``fleet volume``: what is sent, what is printed, and the exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fleet import errors
from fleet.client import pages
from fleet.rpc.clients import OperatorCalls
from tests.unit.cli import fakes

VOLUME = {
    "uuid": "11111111-2222-3333-4444-555555555555",
    "name": "data",
    "size_gb": 10,
    "status": "available",
    "host": "m1@disks#files",
    "volume_type": None,
    "failure": None,
    "tried": [],
}
FAILED = {
    **VOLUME,
    "status": "error",
    "host": None,
    "failure": {"error": "NoValidHost", "message": "No valid host was found. Full."},
    "tried": [{"backend": "m1@disks#files", "reason": "the disk is full"}],
}
POOL = {
    "name": "m1@disks#files",
    "state": "up",
    "disabled": False,
    "total_capacity_gb": 100.0,
    "free_capacity_gb": None,
    "allocated_capacity_gb": 10,
    "total_volumes": 1,
    "capabilities": {"free_capacity_gb": "infinite", "vendor_name": "fleet"},
}


class Volumes(fakes.Conductor):
    """``looks``: what ``list_volumes`` answers, one answer a look; the last is repeated."""

    def __init__(self, *looks: list[dict[str, Any]]) -> None:
        super().__init__()
        self.looks = list(looks) or [[VOLUME]]
        self.answers = {"show_volume": FAILED, "list_pools": [POOL], "delete_volume": VOLUME}
        self.answers["create_volumes"] = {"volumes": [{"uuid": VOLUME["uuid"], "name": "data"}], "warnings": ["odd"]}
        self.answers["manage_volume"] = self.answers["create_volumes"]

    def ask(self, method: str, **arguments: Any) -> Any:
        known = super().ask(method, **arguments)
        if method == "list_volumes":
            return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return known


@pytest.mark.parametrize(
    ("last", "status"), [pytest.param(VOLUME, 0, id="it is made"), pytest.param(FAILED, 1, id="it fails")]
)
def test_create_waits(run, last: dict[str, Any], status: int) -> None:
    """The exit status says whether all are available, the table why not. Warnings go to standard error."""
    conductor = Volumes([{**VOLUME, "status": "creating"}], [last])
    arguments = ("--size", "10", "--type", "fast", "--hint", "a=1", "--hint", "a=2", "--wait", "data")
    found, out, errors = run(conductor, "volume", "create", *arguments)
    assert (status, last["status"] in out, "Warning: odd" in errors) == (found, True, True)
    request = conductor.calls[0][1]["request"]
    expected = {"name": "data", "size": 10, "count": 1, "volume_type": "fast", "scheduler_hints": {"a": ["1", "2"]}}
    assert expected == {key: request[key] for key in expected}


def test_a_copy_has_the_size_of_its_source(run) -> None:
    """Unless the command names another: the conductor knows the source."""
    conductor = Volumes()
    assert 0 == run(conductor, "volume", "create", "--source", "data", "copy")[0]
    request = conductor.calls[0][1]["request"]
    assert ("data", False) == (request["source"], "size" in request)


def test_create_needs_a_size(run) -> None:
    """In whole GiB."""
    with pytest.raises(SystemExit) as refused:
        run(Volumes(), "volume", "create", "--size", "0", "data")
    assert 2 == refused.value.code


def test_list_for_people_and_programs(run) -> None:
    """People see the first characters of uuids, and failures only where there are some."""
    _status, out, _ = run(Volumes(), "volume", "list")
    assert ("11111111 " in out, "failure" in out) == (True, False)
    _status, out, _ = run(Volumes([FAILED]), "volume", "list", "-f", "json", "--status", "error")
    (listed,) = json.loads(out)
    assert (VOLUME["uuid"], "No valid host was found. Full.") == (listed["uuid"], listed["failure"])


@pytest.mark.parametrize("is_old", [False, True], ids=["", "an old conductor"])
def test_a_long_list_is_asked_for_in_parts(is_old: bool) -> None:
    """Until one is not full. A conductor that is too old for parts answers with all."""
    there = [{"uuid": str(number)} for number in range(230)]
    asked: list[dict[str, Any]] = []

    def call(_method: str, **arguments: Any) -> list[dict[str, str]]:
        asked.append(arguments)
        if is_old and "limit" in arguments:
            raise errors.VersionPinned(method="list_volumes", needs="1.25", topic="conductor", pin="1.24", cap="1.24")
        start = int(arguments.get("marker", -1)) + 1
        return there[start : start + arguments.get("limit", 1000)]

    assert there == pages.volumes(OperatorCalls(call), {})
    assert (2 if is_old else 3) == len(asked)


PLACES = [
    ("--host", "m1@disks", {"host": "m1@disks"}),
    ("--backend", "m1@disks#files", {"host": "m1@disks", "pool": "files"}),
]


@pytest.mark.parametrize(("option", "place", "filters"), PLACES)
def test_volumes_of_a_place_are_listed(run, option: str, place: str, filters: dict[str, str]) -> None:
    """A backend or a pool."""
    conductor = Volumes()
    run(conductor, "volume", "list", option, place)
    assert [("list_volumes", {"filters": filters, "limit": 100})] == conductor.calls


def test_show_names_what_was_tried(run) -> None:
    """Each pool with the reason."""
    _status, out, _ = run(Volumes(), "volume", "show", "data")
    assert "m1@disks#files: the disk is full" in out


def test_delete_waits_until_they_are_gone(run) -> None:
    """A volume that is named twice is deleted once."""
    conductor = Volumes([{**VOLUME, "status": "deleting"}], [])
    assert 0 == run(conductor, "volume", "delete", "--wait", "data", VOLUME["uuid"])[0]
    assert [{"name": VOLUME["uuid"]}] == [given for method, given in conductor.calls if method == "delete_volume"]
    conductor = Volumes()
    run(conductor, "volume", "delete", "--force", "--with-snapshots", "data")
    forced = {"name": VOLUME["uuid"], "with_snapshots": True, "force": True}
    assert [forced] == [given for method, given in conductor.calls if method == "delete_volume"]
    status, _out, error = run(Volumes(), "volume", "delete", "--wait", "--timeout", "1", "data")
    assert (1, True) == (status, "not deleted within 1 s: 1 of 1" in error)


class Named(fakes.Conductor):
    """Volumes and snapshots whose uuids are their names; "busy" is not deleted, the others are gone at once."""

    def ask(self, method: str, **arguments: Any) -> Any:
        self.calls.append((method, arguments))
        if method.startswith("list"):
            return []
        if method.startswith("delete") and arguments["name"] == "busy":
            raise errors.Conflict(kind="Volume", name="busy", reason="is in use")
        return {"uuid": arguments["name"], "name": arguments["name"]}


@pytest.mark.parametrize("options", [(), ("--wait",)])
@pytest.mark.parametrize(
    ("words", "method"), [(("volume",), "delete_volume"), (("volume", "snapshot"), "delete_snapshot")]
)
def test_a_refused_deletion_keeps_no_other_from_its_own(
    run, words: tuple[str, ...], method: str, options: tuple[str, ...]
) -> None:
    """Each is asked for; the exit status and an error name the refused one."""
    conductor = Named()
    status, _out, error = run(conductor, *words, "delete", *options, "one", "busy", "two")
    assert [{"name": name} for name in ("one", "busy", "two")] == conductor.sent(method)
    assert (1, "refused: 1 of 3: busy (busy): Volume busy is in use") == (status, error.strip())


def test_pools_say_what_they_have(run) -> None:
    """A capacity that is no number is the word that the backend reports."""
    _status, out, _ = run(Volumes(), "volume", "pool", "list")
    assert ["m1@disks#files", "up", "100.0", "infinite", "10", "1"] == out.splitlines()[3].replace("|", "").split()
    _status, out, _ = run(Volumes(), "volume", "pool", "show", "m1@disks#files")
    assert "vendor_name=fleet" in out
    several = Volumes()
    several.answers["list_pools"] = [POOL, {**POOL, "name": "m1@disks#more"}]
    status, _out, errors = run(several, "volume", "pool", "show", "m1@disks")
    assert (1, True) == (status, "several pools: m1@disks#files, m1@disks#more" in errors)


def test_extend_waits_for_the_size(run) -> None:
    """A volume that keeps its old size is a failure, with the reason."""
    done, failed = (
        Volumes([{**VOLUME, "status": "extending"}], [{**VOLUME, "size_gb": 20}]),
        Volumes([VOLUME | FULL]),
    )
    for conductor in (done, failed):
        conductor.answers["extend_volume"] = VOLUME
    arguments = ("volume", "extend", "--size", "20", "--wait", "data")
    assert 0 == run(done, *arguments)[0]
    assert ("extend_volume", {"name": "data", "size": 20}) == done.calls[0]
    status, _out, errors = run(failed, *arguments)
    assert (1, True) == (status, "has its old size: the disk is full" in errors)


MOVED = {**VOLUME, "host": "m2@disks#files"}
MIGRATIONS = [
    ("it has moved", [[{**VOLUME, "status": "migrating"}], [MOVED]], 0, ""),
    ("it stays", [[{**VOLUME, "failure": {"message": "no pool has room"}}]], 1, "has not migrated: no pool has room"),
    ("it takes longer", [[{**VOLUME, "status": "migrating"}]], 1, "it is migrating after 1 s"),
]


@pytest.mark.parametrize(("_what", "looks", "status", "said"), MIGRATIONS, ids=[case[0] for case in MIGRATIONS])
def test_migrate_waits_until_the_volume_is_there(
    run, _what: str, looks: list[list[dict[str, Any]]], status: int, said: str
) -> None:
    """A volume that is where it was is a failure, with the reason."""
    conductor = Volumes(*looks)
    conductor.answers["migrate_volume"] = VOLUME
    arguments = ("--host", "m2@disks", "--wait", "--timeout", "1", "data")
    found, _out, errors = run(conductor, "volume", "migrate", *arguments)
    assert (status, True) == (found, said in errors)
    assert ("migrate_volume", {"name": "data", "host": "m2@disks"}) == conductor.calls[0]


def test_migrate_prints_how_much_is_copied(run) -> None:
    """On standard error, a line for each change."""
    copying = {**VOLUME, "status": "migrating", "migration": {"step": "copying", "pool": "m2@disks#files"}}
    known = {**copying, "migration": {**copying["migration"], "copied_percent": 40}}
    conductor = Volumes([copying], [known], [known], [MOVED])
    conductor.answers["migrate_volume"] = VOLUME
    _found, _out, errors = run(conductor, "volume", "migrate", "--wait", "data")
    assert 1 == errors.count("40 of 100 per cent done: copied to m2@disks#files")


RETYPES = [
    ("it has the type", [[{**VOLUME, "status": "retyping"}], [{**VOLUME, "volume_type": "fast"}]], 0, ""),
    ("its pool does not suit", [[{**VOLUME, "failure": {"message": "no"}}]], 1, "has its old type: no"),
]


@pytest.mark.parametrize(("_what", "looks", "status", "said"), RETYPES, ids=[case[0] for case in RETYPES])
def test_retype_waits_for_the_type(run, _what: str, looks: list[list[dict[str, Any]]], status: int, said: str) -> None:
    """A volume that keeps its old type is a failure, with the reason."""
    conductor = Volumes(*looks)
    conductor.answers["retype_volume"] = VOLUME
    found, _out, errors = run(conductor, "volume", "retype", "--type", "fast", "--wait", "data")
    assert (status, True) == (found, said in errors)
    sent = {"name": "data", "volume_type": "fast", "migration_policy": "never"}
    assert ("retype_volume", sent) == conductor.calls[0]


@pytest.mark.parametrize(
    ("last", "status"), [pytest.param(VOLUME, 0, id="it is a volume"), pytest.param(FAILED, 1, id="it cannot be one")]
)
def test_manage_waits(run, last: dict[str, Any], status: int) -> None:
    """The exit status says whether it is available, the table why not."""
    conductor = Volumes([{**VOLUME, "status": "managing"}], [last])
    arguments = ("--host", "m1@disks#files", "--name", "data", "--type", "fast", "--wait", "disk.raw")
    found, out, errors = run(conductor, "volume", "manage", *arguments)
    assert (status, last["status"] in out, "Warning: odd" in errors) == (found, True, True)
    request = conductor.calls[0][1]["request"]
    known = {"host": "m1@disks#files", "reference": "disk.raw", "name": "data", "volume_type": "fast"}
    assert {**known, "availability_zone": None, "metadata": {}} == request


@pytest.mark.parametrize(
    ("looks", "status", "said"),
    [
        pytest.param([[{**VOLUME, "status": "unmanaging"}], []], 0, "", id="it is gone"),
        pytest.param([[{**VOLUME, "failure": {"message": "no"}}]], 1, "is still managed: no", id="it stays"),
    ],
)
def test_unmanage_waits_until_the_volume_is_gone(
    run, looks: list[list[dict[str, Any]]], status: int, said: str
) -> None:
    conductor = Volumes(*looks)
    conductor.answers["unmanage_volume"] = VOLUME
    found, _out, errors = run(conductor, "volume", "unmanage", "--wait", "data")
    assert (status, True) == (found, said in errors)
    assert ("unmanage_volume", {"name": "data"}) == conductor.calls[0]


def test_what_can_be_managed_is_listed(run) -> None:
    """With the reason of what cannot."""
    conductor = Volumes()
    there = {"pool": "m1@disks#files", "reference": "disk.raw", "size_gb": 3, "reason": ""}
    conductor.answers["list_manageable"] = [there, {**there, "reference": "link", "reason": "it is a symbolic link"}]
    found, out, _errors = run(conductor, "volume", "pool", "manageable", "m1@disks#files")
    assert (0, True, True) == (found, "disk.raw" in out, "it is a symbolic link" in out)
    assert ("list_manageable", {"host": "m1@disks#files"}) == conductor.calls[0]


FULL = {"failure": {"error": "OSError", "message": "the disk is full"}}
TYPES = [
    (
        ("create", "fast", "--property", "a=1", "--description", "d"),
        "create_volume_type",
        {"volume_type": {"name": "fast", "extra_specs": {"a": "1"}, "description": "d"}},
    ),
    (
        ("set", "fast", "--property", "a=2", "--unset-property", "b"),
        "update_volume_type",
        {"name": "fast", "extra_specs": {"a": "2", "b": None}, "description": None},
    ),
    (("delete", "fast"), "delete_volume_type", {"name": "fast"}),
]


@pytest.mark.parametrize(("words", "method", "sent"), TYPES, ids=[case[1] for case in TYPES])
def test_types(run, words: tuple[str, ...], method: str, sent: dict[str, Any]) -> None:
    """What is sent of a command about types."""
    conductor = Volumes()
    conductor.answers[method] = {"name": "fast"}
    assert 0 == run(conductor, "volume", "type", *words)[0]
    assert [(method, sent)] == conductor.calls


def test_a_type_is_not_changed_into_itself(run) -> None:
    """The message says what may be changed."""
    status, _out, errors = run(Volumes(), "volume", "type", "set", "fast")
    assert (1, True) == (status, "nothing to change: use --property" in errors)


SNAPSHOT = {**VOLUME, "name": "snap", "volume": VOLUME["uuid"]}


def snapshots(*looks: list[dict[str, Any]]) -> Volumes:
    conductor = Volumes()
    conductor.answers |= {
        "create_snapshot": {**SNAPSHOT, "status": "creating"},
        "show_snapshot": SNAPSHOT,
        "delete_snapshot": SNAPSHOT,
        "list_snapshots": looks[-1] if looks else [SNAPSHOT],
    }
    return conductor


@pytest.mark.parametrize(
    ("last", "status"),
    [pytest.param(SNAPSHOT, 0, id="made"), pytest.param({**SNAPSHOT, "status": "error"}, 1, id="failed")],
)
def test_snapshot_create_waits(run, last: dict[str, Any], status: int) -> None:
    """The exit status says whether it is there."""
    conductor = snapshots([last])
    found, out, _errors = run(conductor, "volume", "snapshot", "create", "--volume", "data", "--wait", "snap")
    assert (status, True) == (found, last["status"] in out)
    assert ("create_snapshot", {"volume": "data", "name": "snap"}) == conductor.calls[0]


def test_snapshots_are_listed_and_shown(run) -> None:
    """All, or those of a volume."""
    conductor = snapshots()
    _status, out, _ = run(conductor, "volume", "snapshot", "list", "--volume", "data")
    assert ("snap" in out, VOLUME["uuid"] in out, "failure" in out) == (True, False, False)
    assert ("list_snapshots", {"filters": {"snapshot_of": FAILED["uuid"]}, "limit": 100}) == conductor.calls[-1]
    _status, out, _ = run(conductor, "volume", "snapshot", "show", "snap")
    assert "snap" in out


def test_snapshot_delete_waits_until_they_are_gone(run) -> None:
    """As for volumes."""
    conductor = snapshots([])
    assert 0 == run(conductor, "volume", "snapshot", "delete", "--wait", "snap", "snap")[0]
    assert [{"name": VOLUME["uuid"]}] == [given for method, given in conductor.calls if method == "delete_snapshot"]


@pytest.mark.parametrize("what", ["snapshot", "image"])
def test_a_volume_is_created_with_data(run, what: str) -> None:
    """The size is what they need, unless the command names another."""
    conductor = Volumes()
    assert 0 == run(conductor, "volume", "create", f"--{what}", "data", "copy")[0]
    request = conductor.calls[0][1]["request"]
    assert ("data", False) == (request[what], "size" in request)


def test_a_request_has_the_token_of_its_user(run) -> None:
    """Without one, the connection makes a new one for each run."""
    conductor = Volumes()
    assert 0 == run(conductor, "volume", "create", "--size", "1", "--client-token", "mine", "data")[0]
    assert 0 == run(conductor, "volume", "create", "--size", "1", "data")[0]
    assert ["mine", None] == conductor.tokens
