# SPDX-License-Identifier: Apache-2.0
"""``fleet doctor`` with a nova: each database, each cell and placement, good or with advice."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from fleet.checks.findings import Finding, Level
from fleet.rpc import nova_broker
from scheduler.nova import conf as nova_conf
from scheduler.nova import doctor, placement, service
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.unit.scheduler.plugins import configuration

pytestmark = pytest.mark.parametrize("nova_url", ["sqlite"], indirect=True)


def _conf(**options: Any) -> cfg.ConfigOpts:
    conf = configuration()
    nova_conf.register_opts(conf)
    nova_broker.register_opts(conf)
    for name, value in options.items():
        conf.set_override(name, value, "nova")
    return conf


def _levels(found: list[Finding]) -> list[tuple[str, Level]]:
    return [(each.check, each.level) for each in found]


def test_all_is_well(nova: Databases) -> None:
    """Everything answers; what is not configured is no failure."""
    found = doctor.examine(_conf(api_connection=nova.url, placement_connection=nova.url, placement="off"))
    assert [("database", Level.OK), ("database", Level.OK), ("placement", Level.OK)] == _levels(found)
    assert ["nova_api", "cell cell1", "its database"] == [each.found.partition(" answered")[0] for each in found]


def test_a_cell_that_does_not_answer(nova: Databases) -> None:
    """Is named; the others are asked all the same."""
    nova.update(nova_schema.CELLS, 2, database_connection="sqlite:////nowhere/nova.db")
    found = doctor.examine(_conf(api_connection=nova.url, placement="off"))
    assert [("database", Level.OK), ("database", Level.FAIL), ("placement", Level.WARN)] == _levels(found)
    assert found[1].found.startswith("cell cell1: ")
    assert "Its hosts are left out" in found[1].fix


def test_parts_of_the_health_page(nova: Databases) -> None:
    """Cells and placement's database are asked; cells that do not answer are named."""
    conf = _conf(api_connection=nova.url, placement_connection=nova.url, placement="off")
    api = service.open_api(conf)
    parts = service.databases_and_placement(conf, api)
    assert ["cells", "placement database"] == list(parts)
    for ask in parts.values():
        ask()
    nova.update(nova_schema.CELLS, 2, database_connection="sqlite:////nowhere/nova.db")
    with pytest.raises(RuntimeError, match="cell1: "):
        parts["cells"]()
    api.dispose()


def test_placement_that_does_not_answer(nova: Databases) -> None:
    conf = _conf(api_connection=nova.url, placement_connection="sqlite:////nowhere/placement.db")
    placement.register_opts(conf)
    conf.set_override("auth_type", "admin_token", "placement")
    conf.register_opts(
        [cfg.StrOpt("endpoint", default="http://127.0.0.1:1"), cfg.StrOpt("token", default="t")], "placement"
    )
    found = doctor.examine(conf)
    assert [Level.FAIL, Level.FAIL] == [each.level for each in found if each.check == "placement"]
    assert "Check section [placement]." == found[-1].fix


def test_nothing_is_configured(nova: Databases) -> None:
    found = doctor.examine(_conf(placement="off"))
    assert [("database", Level.FAIL), ("placement", Level.WARN)] == _levels(found)
