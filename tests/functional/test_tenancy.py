# SPDX-License-Identifier: Apache-2.0
"""A caller that acts for a project sees and changes what belongs to this project."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet import errors
from fleet.objects import BuildRequest
from tests.functional.conductor import Conductor, Operator, context

SIZES = {"vcpus": 1, "memory_mb": 512}


def as_project(conductor: Conductor, project: str) -> Operator:
    return conductor.operator.under(project, is_admin=False)


def names(groups: list[dict[str, str]]) -> list[str]:
    return [each["name"] for each in groups]


def test_a_group_belongs_to_the_project_that_creates_it(conductor: Conductor) -> None:
    """The administrator sees all; a group without a project is the administrator's."""
    web, shop = (as_project(conductor, project) for project in ("web", "shop"))
    web.create_group("one", "affinity")
    shop.create_group("two", "affinity")
    nobodys = conductor.operator.under(None)  # type: ignore[arg-type]
    nobodys.create_group("old", "affinity")
    assert (["one"], ["two"]) == (names(web.list_groups()), names(shop.list_groups()))
    assert ["old", "one", "two"] == names(conductor.operator.list_groups())
    assert ["two"] == names(conductor.operator.list_groups("shop"))
    assert [] == as_project(conductor, None).list_groups()  # type: ignore[arg-type]
    assert "web" == web.show_group("one")["project_id"]


@pytest.mark.parametrize(
    "ask",
    [
        pytest.param(lambda operator, name: operator.show_group(name), id="show"),
        pytest.param(lambda operator, name: operator.update_group(name, new_name="mine"), id="update"),
        pytest.param(lambda operator, name: operator.delete_group(name), id="delete"),
    ],
)
def test_a_group_of_another_project_does_not_exist(
    conductor: Conductor, ask: Callable[[Operator, str], object]
) -> None:
    """Neither by its name nor by its uuid; only its name is taken."""
    uuid = as_project(conductor, "web").create_group("one", "affinity")["uuid"]
    shop = as_project(conductor, "shop")
    for name in ("one", uuid):
        with pytest.raises(errors.NotFound, match=name):
            ask(shop, name)
    with pytest.raises(errors.Conflict, match="exists already"):
        shop.create_group("one", "affinity")
    ask(as_project(conductor, "web"), "one")


def test_a_build_joins_groups_of_its_project_only(conductor: Conductor) -> None:
    """By the option and by the hint."""
    uuid = as_project(conductor, "web").create_group("one", "affinity")["uuid"]
    for asked in ({"group": "one"}, {"scheduler_hints": {"group": uuid}}):
        request = BuildRequest.from_wire({"flavor": SIZES, **asked})
        with pytest.raises(errors.NotFound, match="Server group"):
            conductor.intake.accept(context("shop", is_admin=False), request)
        conductor.intake.accept(context("web", is_admin=False), request)
