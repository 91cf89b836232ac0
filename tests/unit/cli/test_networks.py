# SPDX-License-Identifier: Apache-2.0
"""``fleet network``, and networks of builds: what is asked of the conductor, and shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.cli import fakes

SHOWN = {
    "name": "lab",
    "uuid": "11111111-2222-4333-8444-555555555551",
    "bridge": "br0",
    "subnet": "192.0.2.0/24",
    "first": "192.0.2.10",
    "last": "192.0.2.99",
    "gateway": None,
    "dns": [],
    "is_default": True,
    "projects": ["web"],
    "addresses": 90,
    "used": 3,
    "created_at": "2026-01-01T00:00:00.000Z",
}


def test_a_network_is_created_with_what_is_given(run) -> None:
    conductor = fakes.Conductor()
    conductor.answers["create_network"] = SHOWN
    words = "--bridge br0 --subnet 192.0.2.0/24 --range 192.0.2.10-192.0.2.99 --gateway 192.0.2.1 --dns 192.0.2.2"
    more = "--dns 192.0.2.3 --project web --default"
    status, out, _err = run(conductor, "network", "create", "lab", *words.split(), *more.split(), "-f", "json")
    assert (0, "lab", 3) == (status, json.loads(out)["name"], json.loads(out)["used"])
    network = {"name": "lab", "bridge": "br0", "subnet": "192.0.2.0/24", "first": "192.0.2.10", "last": "192.0.2.99"}
    rest = {"gateway": "192.0.2.1", "dns": ["192.0.2.2", "192.0.2.3"], "projects": ["web"], "is_default": True}
    assert [("create_network", {"network": {**network, **rest}})] == conductor.calls


def test_what_is_not_given_is_left_to_the_conductor(run) -> None:
    conductor = fakes.Conductor()
    conductor.answers["create_network"] = SHOWN
    assert 0 == run(conductor, "network", "create", "lab", "--bridge", "br0", "--subnet", "192.0.2.0/24")[0]
    ((_method, asked),) = conductor.calls
    assert {"first", "last"}.isdisjoint(asked["network"])
    assert (None, [], [], False) == tuple(
        asked["network"][name] for name in ("gateway", "dns", "projects", "is_default")
    )


def test_a_range_has_two_ends(run, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run(fakes.Conductor(), "network", "create", "lab", "--bridge", "b", "--subnet", "s", "--range", "192.0.2.10")
    assert "'192.0.2.10' is not FIRST-LAST" in capsys.readouterr().err


def test_lists_show_what_is_used(run) -> None:
    """A project, to which the numbers are not told, sees none."""
    conductor = fakes.Conductor()
    hidden = {name: value for name, value in SHOWN.items() if name not in ("used", "addresses", "projects")}
    conductor.answers["list_networks"] = [SHOWN, {**hidden, "name": "other", "bridge": "", "is_default": False}]
    _status, out, _err = run(conductor, "network", "list")
    (lab, other) = (line for line in out.splitlines() if "192.0.2.0/24" in line)
    assert ("3/90" in lab, "yes" in lab, "/90" in other) == (True, True, False)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", "auto"),
        ("--network auto", "auto"),
        ("--network none", "none"),
        ("--network lab", [{"network": "lab"}]),
        ("--network lab,address=192.0.2.9", [{"network": "lab", "address": "192.0.2.9"}]),
        ("--network lab --network storage", [{"network": "lab"}, {"network": "storage"}]),
    ],
)
def test_networks_of_a_build(run, words: str, expected: Any) -> None:
    conductor = fakes.Conductor()
    run(conductor, "boot", "web", "--flavor", "tiny", *words.split())
    assert expected == conductor.requests[0]["networks"]


@pytest.mark.parametrize("text", ["lab,ip=192.0.2.9", "lab,", ",address=192.0.2.9", ""])
def test_a_network_in_another_form(run, capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        run(fakes.Conductor(), "boot", "web", "--flavor", "tiny", "--network", text)
    assert f"'{text}' is not NETWORK or NETWORK,address=ADDRESS" in capsys.readouterr().err


def test_none_stands_alone(run) -> None:
    conductor = fakes.Conductor()
    words = ("--network", "none", "--network", "lab")
    status, _out, err = run(conductor, "boot", "web", "--flavor", "tiny", *words)
    assert (1, True, []) == (status, "--network none stands alone" in err, conductor.requests)


def test_a_server_shows_its_addresses(run) -> None:
    conductor = fakes.Conductor()
    plug = {"name": "lab", "address": "192.0.2.10", "mac": "02:00:00:00:00:01"}
    conductor.answers["show_instance"] = {
        "instance": {"uuid": "u", "name": "web", "interfaces": [plug]},
        "faults": [],
        "events": [],
        "migration": None,
        "queued": None,
    }
    _status, out, _err = run(conductor, "server", "show", "web", "-f", "json")
    assert "lab=192.0.2.10" == json.loads(out)["addresses"]
