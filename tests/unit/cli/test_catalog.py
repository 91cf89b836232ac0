# SPDX-License-Identifier: Apache-2.0
"""Commands that show, change and delete what was created: what they ask of the conductor."""

from __future__ import annotations

import pathlib
from typing import Any

import oslo_messaging
import pytest

from fleet import errors, states
from fleet.client import connection
from fleet.objects import KeyPair
from tests import factories
from tests.unit.cli import fakes

ASKED: list[tuple[str, str, dict[str, Any]]] = [
    ("flavor show small", "show_flavor", {"name": "small"}),
    (
        "flavor set small --vcpus 2 --name big --property a=b --unset-property c",
        "update_flavor",
        {"name": "small", "changes": {"vcpus": 2, "name": "big"}, "extra_specs": {"a": "b", "c": None}},
    ),
    ("flavor delete small", "delete_flavor", {"name": "small"}),
    ("image show cirros", "show_image", {"name": "cirros"}),
    (
        "image create cirros --location /images/c.raw --min-disk 1 --property hw_architecture=x86_64",
        "create_image",
        {
            "image": {
                "name": "cirros",
                "location": "/images/c.raw",
                "checksum": "",
                "disk_format": "raw",
                "min_ram": 0,
                "min_disk": 1,
                "size": 0,
                "properties": {"hw_architecture": "x86_64"},
            }
        },
    ),
    ("image delete cirros", "delete_image", {"name": "cirros"}),
    ("keypair list", "list_key_pairs", {}),
    ("keypair show mine --user alice", "show_key_pair", {"name": "mine"}),
    ("keypair delete mine", "delete_key_pair", {"name": "mine"}),
    ("aggregate show racks", "show_aggregate", {"name": "racks"}),
    ("aggregate set racks --name rows", "rename_aggregate", {"name": "racks", "new_name": "rows"}),
    ("aggregate delete racks", "delete_aggregate", {"name": "racks"}),
    ("group show web", "show_group", {"name": "web"}),
    (
        "group set web --max-server-per-host 2",
        "update_group",
        {"name": "web", "new_name": None, "policy": None, "max_server_per_host": 2},
    ),
    ("group delete web --yes", "delete_group", {"name": "web"}),
    ("quota delete web", "delete_quota", {"project_id": "web"}),
    ("host delete h1", "delete_host", {"host": "h1"}),
    ("service delete c1 fleet-scheduler", "delete_service", {"host": "c1", "binary": "fleet-scheduler"}),
]


@pytest.mark.parametrize(("line", "method", "arguments"), ASKED, ids=[case[0] for case in ASKED])
def test_asked(run, line: str, method: str, arguments: dict[str, Any]) -> None:
    """Names and changes arrive as they were written."""
    conductor = fakes.Conductor()
    conductor.answers[method] = {}
    assert 0 == run(conductor, *line.split())[0]
    assert [(method, arguments)] == conductor.calls


RECORD = {
    "name": "cirros",
    "uuid": factories.uuid(7),
    "location": "/c",
    "min_disk": 3,
    "properties": {"a": "1", "b": "2"},
}


def test_boot_from_an_image(run) -> None:
    """Its record goes with the request; --image-property wins."""
    conductor = fakes.Conductor()
    conductor.answers["show_image"] = RECORD
    run(conductor, "boot", "web", "--flavor", "small", "--image", "cirros", "--image-property", "b=3")
    (asked,) = conductor.requests
    assert (factories.uuid(7), "cirros", 3, {"a": "1", "b": "3"}) == tuple(
        asked["image"][key] for key in ("id", "name", "min_disk", "properties")
    )


def test_boot_from_an_image_without_a_record(run) -> None:
    """It is refused by its name, as flavors and groups are; with its properties the id goes with the request as it is."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, "boot", "web", "--flavor", "small", "--image", "other")
    assert (1, []) == (status, conductor.requests)
    assert "--image other: no such image" in complaint
    run(conductor, "boot", "web", "--flavor", "small", "--image", "id=other,min_disk=1")
    assert {"id": "other", "min_disk": 1, "properties": {}} == conductor.requests[0]["image"]


def test_a_new_key_pair(run, tmp_path: pathlib.Path) -> None:
    """The private key is written for its owner only, and is not sent; a file that exists stays as it is."""
    conductor = fakes.Conductor()
    conductor.answers["create_key_pair"] = {}
    argv = ("keypair", "create", "mine", "--private-key", str(tmp_path / "key"), "--user", "alice")
    assert 0 == run(conductor, *argv)[0]
    ((_method, asked),) = conductor.calls
    assert {"name", "public_key"} == asked["key_pair"].keys()
    KeyPair.from_wire(asked["key_pair"])
    assert (None, "alice") == conductor.acts_for
    private = (tmp_path / "key").read_text()
    assert "OPENSSH PRIVATE KEY" in private
    assert 0o600 == (tmp_path / "key").stat().st_mode & 0o777
    status, _, complaint = run(conductor, *argv)
    assert (1, True) == (status, "File exists" in complaint)
    assert private == (tmp_path / "key").read_text()


class NoAnswer(fakes.Conductor):
    """Its calls end with this failure."""

    timeout_s = 60

    def __init__(self, failure: Exception) -> None:
        super().__init__()
        self.failure = failure

    def ask(self, method: str, **arguments: Any) -> Any:
        raise self.failure


@pytest.mark.parametrize(
    ("failure", "is_kept"),
    [
        pytest.param(errors.Conflict(kind="Key pair", name="mine", reason="exists already"), False, id="refused"),
        pytest.param(connection.CommandFailed("no daemon serves topic conductor"), False, id="nobody was asked"),
        pytest.param(oslo_messaging.MessageDeliveryFailure("no broker"), False, id="not sent"),
        pytest.param(oslo_messaging.MessagingTimeout("late"), True, id="it may be stored"),
    ],
)
def test_a_private_key_whose_pair_is_not_stored(run, tmp_path: pathlib.Path, failure: Exception, is_kept: bool) -> None:
    """It is removed, so that a second run with another name can write the same file."""
    argv = ("keypair", "create", "mine", "--private-key", str(tmp_path / "key"))
    assert 1 == run(NoAnswer(failure), *argv)[0]
    assert is_kept == (tmp_path / "key").exists()


def test_an_empty_public_key(run, tmp_path: pathlib.Path) -> None:
    """The conductor refuses it with what is wrong; the option was given."""
    (tmp_path / "key").touch()
    conductor = fakes.Conductor()
    conductor.answers["create_key_pair"] = {}
    run(conductor, "keypair", "create", "mine", "--public-key", str(tmp_path / "key"))
    assert [{"key_pair": {"name": "mine", "public_key": ""}}] == conductor.sent("create_key_pair")


@pytest.mark.parametrize("line", ["", "--public-key {key} --private-key {new}"])
def test_a_key_pair_from_one_source(run, tmp_path: pathlib.Path, line: str) -> None:
    """Either a key that exists or a new one."""
    (tmp_path / "key").write_text(factories.PUBLIC_KEY)
    conductor = fakes.Conductor()
    named = line.format(key=tmp_path / "key", new=tmp_path / "new").split()
    status, _, complaint = run(conductor, "keypair", "create", "mine", *named)
    assert (1, []) == (status, conductor.calls)
    assert "--public-key FILE" in complaint


def test_boot_with_a_key_and_user_data(run, tmp_path: pathlib.Path) -> None:
    (tmp_path / "data").write_bytes(b"#!/bin/sh\n")
    conductor = fakes.Conductor()
    named = ("--key-name", "mine", "--user-data", str(tmp_path / "data"))
    run(conductor, "boot", "web", "--flavor", "small", *named)
    assert ("mine", "IyEvYmluL3NoCg==") == tuple(conductor.requests[0][key] for key in ("key_name", "user_data"))


def test_boot_with_volumes(run) -> None:
    """By name or uuid, in the order in which they are given."""
    conductor = fakes.Conductor()
    run(conductor, "boot", "web", "--flavor", "small", "--volume", "data", "--volume", "logs")
    run(conductor, "boot", "web", "--flavor", "small")
    first, second = conductor.requests
    assert [{"volume_id": "data"}, {"volume_id": "logs"}] == first["block_device_mapping"]
    assert "block_device_mapping" not in second


@pytest.mark.parametrize("line", ["flavor set small", "aggregate set racks", "group set web"])
def test_nothing_to_change(run, line: str) -> None:
    """Is a mistake, and the options are named."""
    status, _, complaint = run(fakes.Conductor(), *line.split())
    assert (1, True) == (status, complaint.startswith("nothing to change: "))


def test_the_daemons_of_a_host(run) -> None:
    """Each with its process; an unknown host is an error."""
    conductor = fakes.Conductor()
    conductor.answers["list_services"] = [{"host": "h1", "binary": "fleet-compute", "pid": 77}, {"host": "h2"}]
    status, printed, _ = run(conductor, "service", "show", "h1", "-f", "json")
    assert 0 == status
    assert "77" in printed
    assert "h2" not in printed
    status, _, complaint = run(conductor, "service", "show", "h9")
    assert (1, True) == (status, "Service on host h9 could not be found." in complaint)


@pytest.mark.parametrize(("active", "status"), [(3, 0), (2, 1)])
def test_boot_min_count(run, active: int, status: int) -> None:
    """With --wait as many as --min-count will do."""
    outcomes = iter([states.ACTIVE] * active + [states.ERROR] * (5 - active))
    conductor = fakes.Conductor(lambda request: next(outcomes))
    argv = ["boot", "web", "--flavor", "small", "--count", "5", "--min-count", "3", "--wait", "-f", "json"]
    assert status == run(conductor, *argv)[0]
    assert (5, 3) == (conductor.requests[0]["count"], conductor.requests[0]["min_count"])


def test_boot_min_count_over_count(run) -> None:
    """Is refused before anything is asked."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, "boot", "web", "--flavor", "small", "--count", "2", "--min-count", "3")
    assert (1, "--min-count 3 may not exceed --count 2\n") == (status, complaint)
    assert [] == conductor.requests


@pytest.mark.parametrize(
    ("line", "policy"),
    [
        ("group create web --policy affinity --max-server-per-host 2", "affinity"),
        ("group create web --rule policy=spread,label=rack --max-server-per-host 2", "none"),
        ("group set web --policy soft-anti-affinity --max-server-per-host 2", "soft-anti-affinity"),
    ],
)
def test_members_of_one_host_are_counted_for_anti_affinity_only(run, line: str, policy: str) -> None:
    """With another policy the number would be stored, and would have no effect."""
    conductor = fakes.Conductor()
    status, _, complaint = run(conductor, *line.split())
    expected = f"--max-server-per-host needs the policy anti-affinity, not {policy}\n"
    assert (1, expected, []) == (status, complaint, conductor.calls)
