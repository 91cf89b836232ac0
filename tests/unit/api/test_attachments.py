# SPDX-License-Identifier: Apache-2.0
"""Volumes of servers over HTTP: the forms of nova's versions, and what is asked of the conductor."""

from __future__ import annotations

import json
from typing import Any

import pytest
from falcon import testing

from tests import factories
from tests.unit.api.test_server_details import UUID, OneServer

VOLUME, ATTACHMENT = factories.uuid(31), factories.uuid(32)
ATTACHED = {
    "uuid": ATTACHMENT, "volume": VOLUME, "instance": UUID, "device": "vdb", "status": "attached", "host": "h1",
    "created_at": "2026-11-22T05:07:38.149Z", "instance_name": "web", "volume_name": "data", "size_gb": 1,
}  # fmt: skip
PATH = f"/v2.1/servers/{UUID}/os-volume_attachments"


@pytest.fixture
def conductor() -> OneServer:
    """The server has one volume."""
    made = OneServer()
    shown = made.answers["show_instance"]
    made.answers |= {
        **dict.fromkeys(("attach_volume", "detach_volume"), ATTACHED),
        "list_instances": [{**made.instance, "volumes": [VOLUME]}],
        "show_instance": lambda **named: {**shown(**named), "volumes": [ATTACHED]},
    }
    return made


def send(client: testing.TestClient, method: str, path: str, body: Any = None, version: str = "2.1") -> testing.Result:
    headers = {"OpenStack-API-Version": f"compute {version}"}
    return client.simulate_request(method, path, body=json.dumps(body) if body else "", headers=headers)


PLAIN = {"volumeId": VOLUME, "serverId": UUID, "device": "/dev/vdb"}
FORMS = [
    ("2.1", {"id": VOLUME, **PLAIN}),
    ("2.79", {"id": VOLUME, **PLAIN, "tag": None, "delete_on_termination": False}),
    (
        "2.89",
        {**PLAIN, "tag": None, "delete_on_termination": False, "attachment_id": ATTACHMENT, "bdm_uuid": ATTACHMENT},
    ),
]


@pytest.mark.parametrize(("version", "form"), FORMS, ids=[case[0] for case in FORMS])
def test_the_volumes_of_a_server(client: testing.TestClient, version: str, form: dict[str, Any]) -> None:
    assert {"volumeAttachments": [form]} == send(client, "GET", PATH, version=version).json
    assert {"volumeAttachment": form} == send(client, "GET", f"{PATH}/{VOLUME}", version=version).json
    assert 404 == send(client, "GET", f"{PATH}/{ATTACHMENT}").status_code


def test_a_volume_is_attached_and_detached(client: testing.TestClient, conductor: OneServer) -> None:
    made = send(client, "POST", PATH, {"volumeAttachment": {"volumeId": VOLUME, "device": "/dev/vdb"}})
    assert (200, "/dev/vdb") == (made.status_code, made.json["volumeAttachment"]["device"])
    assert 202 == send(client, "DELETE", f"{PATH}/{VOLUME}").status_code
    named = {"name": UUID, "volume": VOLUME}
    assert [("attach_volume", {**named, "device": "/dev/vdb"}), ("detach_volume", named)] == conductor.writes
    assert 404 == send(client, "DELETE", f"{PATH}/{ATTACHMENT}").status_code


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, 400),
        ({"volumeId": "data"}, 400),
        ({"volumeId": VOLUME, "colour": "red"}, 400),
        ({"volumeId": VOLUME, "tag": "a"}, 501),
        ({"volumeId": VOLUME, "delete_on_termination": True}, 501),
    ],
)
def test_a_request_that_cannot_be_done(
    client: testing.TestClient, conductor: OneServer, body: dict[str, Any], code: int
) -> None:
    assert code == send(client, "POST", PATH, {"volumeAttachment": body}, version="2.79").status_code
    assert [] == conductor.writes


def test_servers_show_their_volumes(client: testing.TestClient, conductor: OneServer) -> None:
    """Alone and in lists. A conductor that is too old has none."""
    name = "os-extended-volumes:volumes_attached"
    (listed,) = send(client, "GET", "/v2.1/servers/detail").json["servers"]
    assert [{"id": VOLUME}] == listed[name] == send(client, "GET", f"/v2.1/servers/{UUID}").json["server"][name]
    assert [{"id": VOLUME, "delete_on_termination": False}] == send(
        client, "GET", f"/v2.1/servers/{UUID}", version="2.3"
    ).json["server"][name]
    conductor.answers["list_instances"] = [conductor.instance]
    assert [] == send(client, "GET", "/v2.1/servers/detail").json["servers"][0][name]
