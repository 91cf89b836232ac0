# SPDX-License-Identifier: Apache-2.0
"""What the conductor answers is listed, field for field, and a project gets no other field."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from conductor_stub.operators.answer_fields import ANSWERS
from conductor_stub.operators.tenancy import CHECKS, Tenancy
from conductor_stub.steps.attempt import Attempt, Failure
from fleet import errors
from fleet.objects import BuildRequest, VolumeRequest
from tests import factories
from tests.worlds.conductor import Conductor, context
from tests.worlds.volumes import Volumes

SECRET = "https://user:password@images.example/debian"
FLAVOR = {"name": "small", "vcpus": 1, "memory_mb": 512, "root_gb": 1, "extra_specs": {"hw:cpu_policy": "shared"}}
#: What no answer to a project has: hosts, backends, pools, credentials, specs of volume types.
SECRETS = ("h1", "m1@fast", "p1", "password", "secret-pool")


def paths(answer: Any, path: str = "") -> Iterator[str]:
    """The keys of an answer at any depth. What users write counts as one."""
    if isinstance(answer, list):
        for each in answer:
            yield from paths(each, path)
    elif isinstance(answer, dict) and path.rsplit(".", 1)[-1] not in ("metadata", "extra_specs", "properties"):
        for name, value in answer.items():
            yield f"{path}.{name}".lstrip(".")
            yield from paths(value, f"{path}.{name}")


class OneOfEach:
    """Something of everything, of project ``web``: built, failed, resized, waiting, attached, copied."""

    def __init__(self, conductor: Volumes) -> None:
        self._conductor = conductor
        self.web = conductor.operator.under("web")
        self._catalogs()
        self._volumes()
        self._instances()

    def _catalogs(self) -> None:
        operator = self._conductor.operator
        operator.create_flavor(FLAVOR)
        operator.create_flavor({**FLAVOR, "name": "large", "vcpus": 2})
        operator.create_image({"name": "debian", "location": SECRET, "properties": {"os_type": "linux"}})
        operator.create_volume_type({"name": "fast", "extra_specs": {"volume_backend_name": "secret-pool"}})
        self.web.create_key_pair({"name": "mine", "public_key": factories.PUBLIC_KEY})
        self.web.create_group("pair", "soft-anti-affinity")

    def _volumes(self) -> None:
        self._conductor.volume_scheduler.answers.append([("m1@fast", "p1")])
        asked = VolumeRequest.from_wire({"size": 1, "name": "disk", "metadata": {"a": "b"}})
        (made,) = self._conductor.volume_creation.accept(context("web"), asked)
        self._conductor.serve()
        self._conductor.done(made["uuid"])
        self._conductor.done(self.web.create_snapshot("disk", "copy")["uuid"])

    def _instances(self) -> None:
        conductor = self._conductor
        conductor.add_host("h1")
        self.active = self._active("active")
        self.resized = self._active("resized")
        self.web.attach_volume("active", "disk")
        self.failed = self._build("failed")
        conductor.scheduler.answers.append(errors.NoValidHost(reason="h1 is full", details={"filters": []}))
        conductor.work()
        self.failing = self._build("failing")
        conductor.scheduler.answers.append([("h1", ())])
        conductor.work()
        why = Failure(step="spawn", code="SpawnFailed", message="h1 said no", duration_s=0.5)
        conductor.placement.abort(context(), Attempt(self.failing, 1, "h1", "h1"), why)

    def _active(self, name: str) -> str:
        uuid = self._build(name)
        self._conductor.scheduler.answers.append([("h1", ())])
        self._conductor.work()
        self._conductor.claim(uuid, "h1")
        self._conductor.finish(uuid, "h1")
        return uuid

    def _build(self, name: str) -> str:
        asked = BuildRequest.from_wire({"flavor": "small", "name": name, "group": "pair", "metadata": {"a": "b"}})
        return str(self._conductor.intake.accept(context("web"), asked)["instances"][0]["uuid"])

    def answers(self) -> Iterator[tuple[str, Any]]:
        """Of each method, as the administrator gets it."""
        web, uuids = self.web, [self.active, self.failed, self.failing]
        position = {"instance": 0, "volume": 0}
        for method, asked in (
            *(("list_flavors", ()), ("show_flavor", ("small",)), ("list_images", ()), ("show_image", ("debian",))),
            *(("list_volume_types", ()), ("list_groups", ()), ("show_group", ("pair",)), ("list_key_pairs", ())),
            *(("show_key_pair", ("mine",)), ("show_quota", ("web",)), ("list_events", (position,))),
            *(("search_instances", ()), ("search_volumes", ())),
            *(("list_instances", ({},)), ("newest_faults", (uuids,)), ("list_attachments", (uuids,))),
            *(("show_instance", (name,)) for name in ("active", "failed", "failing")),
            *(
                ("update_instance", ("active", {"description": "x"})),
                ("list_volumes", ({},)),
                ("show_volume", ("disk",)),
            ),
            *(
                ("list_snapshots", ({},)),
                ("show_snapshot", ("copy",)),
                ("update_volume", ("disk", {"description": "x"})),
            ),
            *(("attach_volume", ("active", "disk")), ("create_volumes", ({"size": 1},)), ("list_queue", ())),
            *(("delete_key_pair", ("mine",)), ("resize_instance", ("resized", "large")), ("list_migrations", ({},))),
        ):
            yield method, getattr(web, method)(*asked)


@pytest.fixture
def fleet(database: Any) -> OneOfEach:
    return OneOfEach(Volumes(database))


def test_each_method_of_a_project_has_a_list() -> None:
    """And no other method has one: its answer would be for the administrator."""
    assert {method for _namespace, method in CHECKS} == set(ANSWERS)


def test_a_project_gets_every_field_that_is_documented(fleet: OneOfEach, database: Any) -> None:
    """Nothing that readers of answers need is missing. No value names a host, a pool, a credential or a spec of a type."""
    tenancy = Tenancy(database)
    dropped: set[str] = set()
    known: set[str] = set()
    for method, answer in fleet.answers():
        message = {"namespace": "operator", "method": method}
        shown = tenancy.release({"project_id": "web", "is_admin": False}, message, answer)
        dropped |= {f"{method}: {path}" for path in {*paths(answer)} - {*paths(shown)}}
        known |= _secrets(answer)
        assert set() == _secrets(shown), method
    assert set(SECRETS) == known
    assert set() == {each for each in dropped if ".details." not in each}


def test_a_field_that_is_not_listed_is_dropped(fleet: OneOfEach, database: Any) -> None:
    """At any depth: what a later release adds is not shown before it is listed."""
    tenancy = Tenancy(database)
    for method, answer in fleet.answers():
        for record in _records(answer):
            record["later"] = "unlisted"
        message = {"namespace": "operator", "method": method}
        shown = tenancy.release({"project_id": "web", "is_admin": False}, message, answer)
        assert "unlisted" not in json.dumps(shown), method
        assert answer is None or "unlisted" in json.dumps(tenancy.release({"is_admin": True}, message, answer))


def _secrets(answer: Any) -> set[str]:
    text = json.dumps(answer)
    return {each for each in SECRETS if re.search(rf"\b{each}\b", text)}


def _records(answer: Any) -> Iterator[dict[str, Any]]:
    """All but what users write, and mappings by uuid."""
    if isinstance(answer, list):
        for each in answer:
            yield from _records(each)
    elif isinstance(answer, dict):
        for name, value in list(answer.items()):
            if name not in ("metadata", "extra_specs", "properties", "scheduler_hints", "position"):
                yield from _records(value)
        if not all(len(key) == 36 for key in answer):
            yield answer


def test_the_administrator_gets_the_answer_as_it_is(conductor: Conductor) -> None:
    """Also of methods without a list."""
    answer = {"hosts": ["h1"], "later": 1}
    message = {"namespace": "operator", "method": "list_hosts"}
    assert answer == Tenancy(conductor.database).release({"is_admin": True}, message, answer)
