# SPDX-License-Identifier: Apache-2.0
"""Servers of nova's databases that accept connections, and say nothing: nothing waits for them for ever."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from fleet import errors
from fleet.db.connection.options import Limits
from fleet.db.nova.own_service import OwnService
from scheduler.nova.placement import Placement, PlacementFailed, register_opts
from tests.clock import FakeClock
from tests.factories import uuid
from tests.functional import nova_schema
from tests.functional.nova_schema import Databases
from tests.functional.test_nova_feed import FeedOverNova

SHORT = Limits(connect_timeout=1, peer_timeout=1)


class Hasty(FeedOverNova):
    within = SHORT


@pytest.fixture(params=["mysql+pymysql", "postgresql+psycopg2"])
def silent_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kernel accepts connections for a server that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"{request.param}://nova@127.0.0.1:{server.getsockname()[1]}/nova"


@pytest.mark.parametrize("nova_url", ["sqlite"], indirect=True)
def test_a_cell_whose_server_is_silent(nova: Databases, silent_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """The reading ends, the cell counts as failing, and the hosts of the others are served."""
    nova.insert(nova_schema.CELLS, id=3, uuid=uuid(77), name="cell2", database_connection=silent_url)
    world = Hasty(nova)
    try:
        assert ["cmp1", "cmp2"] == world.up()
        assert "Cell cell2 cannot be read" in caplog.text
    finally:
        world.close()


def _placement(url: str, *options: str) -> Placement:
    """Placement of a section ``[placement]`` with these options."""
    conf = cfg.ConfigOpts()
    register_opts(conf)
    text = "\n".join(["[placement]", "auth_type = none", f"endpoint_override = {url}", *options])
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(text)
        file.flush()
        conf([], default_config_files=[file.name])
        return Placement.from_conf(conf)


@pytest.mark.parametrize(("options", "timeout_s"), [((), 60), (("timeout = 7",), 7)])
def test_a_call_to_placement_has_a_limit(options: tuple[str, ...], timeout_s: float) -> None:
    """Whether nova.conf sets one or not: a thread that waits for ever serves no request."""
    assert timeout_s == _placement("http://127.0.0.1:1", *options)._adapter.session.timeout


def test_placement_is_silent() -> None:
    """The request is refused."""
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(PlacementFailed, match="ConnectTimeout"):
        _placement(f"http://127.0.0.1:{server.getsockname()[1]}", "timeout = 1").ping()


def test_the_list_of_services_is_on_a_silent_server(silent_url: str) -> None:
    """The heartbeat fails, and the next one is tried in time."""
    row = OwnService(silent_url, "sched1", FakeClock(), SHORT)
    try:
        with pytest.raises(errors.DatabaseUnavailable):
            row.beat()
    finally:
        row.dispose()
