# SPDX-License-Identifier: Apache-2.0
"""Tests of ``compute_driver``."""

from __future__ import annotations

import pathlib

import pytest

from compute_agent import conf as agent_conf
from compute_agent import drivers, main
from compute_agent.drivers.fake import FakeDriver
from compute_agent.drivers.local import LocalDriver
from fleet import errors
from tests.configuration import configuration
from tests.unit.compute_agent import builders


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("fake", FakeDriver, id="built in: fake"),
        pytest.param("local", LocalDriver, id="built in: local"),
        pytest.param("compute_agent.drivers.fake.FakeDriver", FakeDriver, id="dotted path"),
    ],
)
def test_driver_class(name: str, expected: type) -> None:
    """A short name or a dotted path names a driver."""
    assert expected is drivers.driver_class(name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        pytest.param("xen", "it is none of fake, libvirt, local", id="unknown name"),
        pytest.param("no.such.Driver", "No module named 'no'", id="unknown module"),
        pytest.param("compute_agent.main.names", "it is not a subclass", id="not a driver"),
    ],
)
def test_a_wrong_name_stops_the_agent(name: str, reason: str) -> None:
    """The error names the option, the value and the reason."""
    with pytest.raises(errors.ClassNotFound) as wrong:
        drivers.driver_class(name)
    assert ("compute_driver", name) == (wrong.value.option, wrong.value.class_name)
    assert reason in wrong.value.reason


def test_the_local_driver_serves_one_host() -> None:
    """Two hosts on one machine would sell it twice."""
    with pytest.raises(errors.ConfigError) as wrong:
        main.load_drivers(builders.a_conf(compute_driver="local"), ["a", "b"])
    assert "names 2 hosts, and the driver local serves one" == wrong.value.reason


@pytest.mark.parametrize(
    "options",
    [pytest.param({"compute_driver": "local"}, id="local"), pytest.param({"fake": {"persist": True}}, id="fake")],
)
def test_a_directory_that_cannot_be_written_stops_the_agent(options: dict) -> None:
    """Found at start, not at the first build."""
    conf = builders.a_conf(instances_path="/proc/nothing/here", **options)
    with pytest.raises(errors.ConfigError) as wrong:
        main.load_drivers(conf, ["a"])
    assert "instances_path" == wrong.value.option


def test_names_default_to_this_host() -> None:
    """Without --hosts an agent serves the option host."""
    assert ["me"] == main.names(builders.a_conf(host="me"))
    assert ["h1", "h2"] == main.names(builders.a_conf(host="me", hosts=["h[1-2]"]))


@pytest.mark.parametrize(("driver", "warned"), [("fake", ["WARNING"]), ("local", [])])
def test_simulated_hosts_are_announced(
    driver: str, warned: list[str], tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The agent's log warns at the start that nothing really runs on them."""
    main.warn_of_simulated(
        main.load_drivers(builders.a_conf(compute_driver=driver, instances_path=str(tmp_path)), ["h1"])
    )
    assert warned == [line.levelname for line in caplog.records if "SIMULATED" in line.message and "h1" in line.message]


def test_the_default_is_no_invention() -> None:
    """A configuration that names no driver serves this machine."""
    conf = configuration(agent_conf.register_opts)
    assert not drivers.driver_class(conf.compute_driver).simulated
