# SPDX-License-Identifier: Apache-2.0
"""The document of the API: valid, complete, and true of what is parsed."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import falcon
import jsonschema
import openapi_spec_validator
import pytest
from falcon import testing
from pydantic.json_schema import GenerateJsonSchema

from fleet_api import conf as api_conf
from fleet_api.access.rules import DOCUMENT
from fleet_api.application import application
from fleet_api.block_storage.volumes import Volumes
from fleet_api.own import openapi
from fleet_api.requests.bodies import Body, part, taken_by, takes
from fleet_api.servers.actions import Actions
from tests.api_document import ApiDocument
from tests.configuration import configuration
from tests.unit.api.test_requests import BAD_SERVERS, SERVER, FewServers

#: Words of refusals that no schema can find.
BEYOND_SCHEMAS = {
    *("flavorRef", "imageRef", "networks", "block_device_mapping_v2", "server.key_name", "security group"),
    *(
        "server.host cannot be used: Host none",
        "server.hypervisor_hostname cannot be used: Node none",
        "server.host may not stand beside",
        "tags is known from version 2.52",
        "description is known from version 2.19",
        "server.user_data must be base64",
    ),
}


@pytest.fixture
def conductor() -> FewServers:
    return FewServers()


@pytest.fixture(scope="module")
def document_text() -> str:
    """Asked for once: to make it takes a third of a second."""
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    answer = testing.TestClient(application(FewServers(), conf)).simulate_get(DOCUMENT)
    assert (200, "application/json") == (answer.status_code, answer.headers["Content-Type"])
    return answer.text


@pytest.fixture
def document(document_text: str) -> dict[str, Any]:
    return json.loads(document_text)


@pytest.mark.long  # the validator takes five seconds of processor time
def test_it_is_valid(document: dict[str, Any]) -> None:
    """By a validator that others have written. Its names are for readers."""
    openapi_spec_validator.validate(document)
    assert {"compute.groups.New", "servers.input.server_request.Server"} <= document["components"]["schemas"].keys()


def test_everybody_may_read_it(conductor: FewServers, tmp_path: pathlib.Path) -> None:
    """As the documents of discovery: a client needs it before it has a password."""
    conf = configuration(api_conf.register_opts)
    conf.set_override("auth_strategy", "http_basic", "api")
    known = tmp_path / "htpasswd"
    known.write_text("a:$2b$10$" + "a" * 53 + "\n")
    known.chmod(0o600)
    conf.set_override("basic_auth_file", str(known), "api")
    assert 200 == testing.TestClient(application(conductor, conf)).simulate_get(DOCUMENT).status_code


def test_every_path_has_who_may_and_what_it_does(document: dict[str, Any]) -> None:
    operations = [(path, each) for path, found in document["paths"].items() for each in found.values()]
    assert 120 < len(operations)
    public = [path for path, each in operations if not each.get("x-policy-rule")]
    assert ["/", "/v2", "/v2.1", "/v3", "/v2.0", *["/fleet/v1/session"] * 2, DOCUMENT] == public
    assert [[]] * 8 == [each["security"] for path, each in operations if not each.get("x-policy-rule")]
    names = [each["operationId"] for _path, each in operations]
    assert len(set(names)) == len(names)


def schema_of(document: dict[str, Any], path: str, method: str = "post") -> dict[str, Any]:
    content = document["paths"][path][method]["requestBody"]["content"]["application/json"]
    return {**content["schema"], "components": document["components"]}


def accepts(document: dict[str, Any], body: Any, path: str, method: str = "post") -> bool:
    return jsonschema.Draft202012Validator(schema_of(document, path, method)).is_valid(body)


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        ("/v2.1/servers", {"server": SERVER, "os:scheduler_hints": {"a": "b"}}, True),
        ("/v2.1/servers", {"server": SERVER, "colour": 1}, False),
        ("/v2.1/servers", {"server": {**SERVER, "OS-DCF:diskConfig": "AUTO"}}, True),
        ("/v2.1/servers", {}, False),
        ("/v2.1/servers/{server_id}/action", {"migrate": None}, True),
        ("/v2.1/servers/{server_id}/action", {"os-stop": None}, True),
        ("/v2.1/servers/{server_id}/action", {"resize": None}, False),
        ("/v2.1/servers/{server_id}/action", {"os-stop": None, "os-start": None}, False),
        (
            "/v2.1/os-server-groups",
            {"server_group": {"name": "g", "policy": "anti-affinity", "rules": {"max_server_per_host": "2"}}},
            True,
        ),
        ("/fleet/v1/explain", {"request": {"flavor": "m1"}, "best": 3}, True),
        ("/fleet/v1/explain", {"request": {}, "group_by": "host"}, False),
    ],
)
def test_bodies(document: dict[str, Any], path: str, body: Any, expected: bool) -> None:
    assert expected == accepts(document, body, path)


def test_what_is_refused_for_its_form_is_refused_by_the_document(document: dict[str, Any]) -> None:
    """Of all refused servers, only those are left over that other fields, the version or the conductor speak against."""
    left = [word for server, _code, word in BAD_SERVERS if accepts(document, {"server": server}, "/v2.1/servers")]
    assert set(left) <= BEYOND_SCHEMAS


def test_no_number_of_a_body_is_read_out_of_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is strict, or a WholeNumber, whose form has its text as well."""

    class Strict(GenerateJsonSchema):
        def int_schema(self, schema: Any) -> dict[str, Any]:
            assert schema.get("strict"), "use fields.WholeNumber or fields.Integer"
            return super().int_schema(schema)

    monkeypatch.setattr(openapi, "GenerateJsonSchema", Strict)
    conf = configuration(api_conf.register_opts)
    conf.set_override("host_names", ["falconframework.org"], group="api")
    found = testing.TestClient(application(FewServers(), conf)).simulate_get(DOCUMENT)
    assert (200, True) == (found.status_code, '"pattern": "^-?[0-9]+$"' in found.text)


def test_the_actions_are_those_that_are_done() -> None:
    for resource, known in ((Actions, Actions(None)._known), (Volumes, Volumes(None, 1)._actions)):  # type: ignore[arg-type]
        responder = resource.on_post if resource is Actions else resource.on_post_action  # type: ignore[attr-defined]
        body = taken_by(responder)
        assert body is not None
        assert known.keys() == body.parts.keys()


def test_only_what_is_declared_is_parsed() -> None:
    """A responder that parses another kind, or has none, is a mistake of ours."""

    class Resource:
        @takes(Body({"thing": int}))
        def on_post(self, request: falcon.Request, response: falcon.Response) -> None:
            response.media = part(request, "thing", str)

    asked = falcon.Request(testing.create_environ(method="POST", body=json.dumps({"thing": "a"})))
    with pytest.raises(TypeError, match="thing is not declared"):
        Resource().on_post(asked, falcon.Response())


def test_every_answer_has_a_form(document: dict[str, Any]) -> None:
    """Or is declared as having no body. Only these have another form than JSON."""
    without, others = [], []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            answers = {status: found for status, found in operation["responses"].items() if status != "default"}
            if not answers:
                without.append(f"{method} {path}")
            others += [path for each in answers.values() if set(each.get("content", {})) - {"application/json"}]
    assert [] == without
    assert ["/fleet/v1/events"] == others


def test_answers_have_no_other_fields_than_the_document_says(api_document: ApiDocument) -> None:
    project = {"id": "p", "name": "p", "domain_id": "default", "enabled": True, "is_domain": False, "links": {}}
    path = "/v2.1/projects/{project_id}"
    assert [] == api_document.mistakes("GET", path, 200, {"project": project})
    assert [
        f"GET {path}: 200 $.project: Additional properties are not allowed ('colour' was unexpected)",
        f"GET {path}: 201 is not in the document",
    ] == [
        *api_document.mistakes("GET", path, 200, {"project": {**project, "colour": "red"}}),
        *api_document.mistakes("GET", path, 201, {"project": project}),
    ]


def test_a_field_names_its_version(document: dict[str, Any]) -> None:
    server = document["components"]["schemas"]["answers.Server"]
    assert "From version 2.26 on." == server["properties"]["tags"]["description"]
    assert "tags" not in server["required"]
