# SPDX-License-Identifier: Apache-2.0
"""The start in the place of nova-scheduler: nothing is taken from nova's queue before it can be answered."""

from __future__ import annotations

import pathlib

import pytest
from oslo_config import cfg

from fleet import errors
from fleet.rpc import nova_broker
from scheduler.nova import conf as nova_conf
from scheduler.nova import service
from tests.unit.scheduler.plugins import configuration

_URL = "rabbit://nova:secret@127.0.0.1:1/"


def _conf(tmp_path: pathlib.Path, text: str = "", url: str = _URL) -> cfg.ConfigOpts:
    path = tmp_path / "fleet.conf"
    database = f"sqlite:///{tmp_path}/none.db"
    path.write_text(f"[nova]\ntransport_url = {url}\napi_connection = {database}\n{text}")
    conf = configuration(path)
    nova_conf.register_opts(conf)
    nova_broker.register_opts(conf)
    service.adapt(conf)
    return conf


@pytest.mark.parametrize("url", ["nova", "rabbit://nova:se:cret@host:x/", "rabbit://[::1/", "kafkka://host/"])
def test_a_transport_url_that_is_none(tmp_path: pathlib.Path, url: str) -> None:
    """The option is named, and no part of the password."""
    with pytest.raises(errors.ConfigError, match="Option \\[nova\\] transport_url is no URL") as refused:
        service.check(_conf(tmp_path, "placement = off\n", url))
    assert "cret" not in refused.value.message


def test_claims_need_a_placement(tmp_path: pathlib.Path) -> None:
    """Without its section every request would be refused."""
    with pytest.raises(errors.ConfigError, match="Option \\[placement\\] auth_type is not set"):
        service.check(_conf(tmp_path))
    service.check(_conf(tmp_path, "placement = off\n"))
    service.check(_conf(tmp_path, "[placement]\nauth_type = none\nendpoint_override = http://127.0.0.1:1\n"))


def test_nothing_is_served_before_the_hosts_are_known(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database has no tables yet. The worker tries again."""
    conf = _conf(tmp_path, "placement = off\n")
    served: list[object] = []
    monkeypatch.setattr(service.server, "get_server", lambda *arguments: served.append(arguments))
    process = service.process(conf, "fleet-scheduler", 0)
    for _try in range(2):
        with pytest.raises(errors.StaleState, match="nothing yet"):
            process.serving()
    assert [] == served
