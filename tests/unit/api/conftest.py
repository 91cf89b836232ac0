# SPDX-License-Identifier: Apache-2.0
"""``client`` sends requests to the application over the ``conductor`` of a test's module. Each answer is held against the
document of the API.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import falcon
import pytest
from falcon import testing

from fleet_api import conf as api_conf
from fleet_api.access import users
from fleet_api.application import application
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.paths import templates
from tests.api_document import ApiDocument
from tests.configuration import configuration


@pytest.fixture(scope="session")
def api_document() -> ApiDocument:
    return ApiDocument()


@pytest.fixture(autouse=True)
def true_answers(api_document: ApiDocument) -> Iterator[None]:
    """Each answer has the form that the document of the API says."""
    with api_document.held() as wrong:
        yield
    assert [] == wrong


@pytest.fixture(autouse=True)
def documented(monkeypatch: pytest.MonkeyPatch, api_document: ApiDocument) -> Iterator[None]:
    """Each parameter of a query that a responder reads is in the document of the API."""
    read, missing = falcon.Request.get_param, []
    known: dict[tuple[str, str], set[str]] = {}
    for path, operations in api_document.document["paths"].items():
        for method, operation in operations.items():
            known[method.upper(), path] = {each["name"] for each in operation["parameters"]}

    def get_param(self: falcon.Request, name: str, *more: Any, **options: Any) -> Any:
        if name not in known.get((self.method, templates.of(self)), ()):
            missing.append(f"{self.method} {self.uri_template} reads {name}")
        return read(self, name, *more, **options)

    monkeypatch.setattr(falcon.Request, "get_param", get_param)
    yield
    assert [] == missing


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes may cost as little as bcrypt can do: one comparison of the least cost in production takes 60 ms."""
    monkeypatch.setattr(users, "LEAST_COST", 4)


class Everybodys:
    """An application where everybody is the administrator, for all tests: falcon takes 25 ms to compile its routes.

    :ivar conductor: the one of the present test
    :ivar wrong: how answers differ from the document
    """

    conductor: Any = None

    def __init__(self, document: ApiDocument) -> None:
        conf = configuration(api_conf.register_opts)
        conf.set_override("host_names", ["falconframework.org"], group="api")
        with document.held() as self.wrong:
            self.application = application(self, conf)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.conductor, name)


@pytest.fixture(scope="session")
def everybodys(api_document: ApiDocument) -> Everybodys:
    return Everybodys(api_document)


@pytest.fixture
def client(everybodys: Everybodys, conductor: Conductor) -> Iterator[testing.TestClient]:
    everybodys.conductor = conductor
    everybodys.wrong.clear()
    yield testing.TestClient(everybodys.application)
    assert [] == everybodys.wrong
