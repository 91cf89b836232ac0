# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage nova check``: options that differ, and hosts that placement and the filters here do not both offer."""

from __future__ import annotations

import pytest

from fleet.checks.findings import Level
from fleet.db.nova import api_queries
from scheduler.nova import check
from scheduler.nova import conf as nova_conf
from scheduler.nova.placement import Placement
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, flavor
from tests.unit.scheduler.nova.test_claims import Answer, FakeAdapter
from tests.unit.scheduler.nova.worlds import UUIDS, World, node_row
from tests.unit.scheduler.plugins import configuration

#: A line of nova.conf, and words of the finding.
OPTIONS = [
    ("[scheduler]\nmax_attempts = 5\n", "[scheduler] max_attempts = 5, here it is 3"),
    ("[DEFAULT]\nreserved_host_memory_mb = 2048\n", "reserved_host_memory_mb = 2048, here it is 512"),
    ("[filter_scheduler]\nenabled_filters = ComputeFilter, MyFilter\n", "only nova has MyFilter"),
    ("[filter_scheduler]\nenabled_filters = ComputeFilter\n", "only here are ComputeCapabilitiesFilter"),
    ("[scheduler]\nimage_metadata_prefilter = true\n", "image_metadata_prefilter, which has no effect here"),
]


def _options(tmp_path, text: str):
    (tmp_path / "nova.conf").write_text(text)
    conf = configuration()
    nova_conf.register_opts(conf)
    conf.register_opts(check.service.nova_broker.OPTIONS, "nova")
    return list(check._options(conf, str(tmp_path / "nova.conf")))


@pytest.mark.parametrize(("text", "said"), OPTIONS)
def test_an_option_that_differs(tmp_path, text, said):
    """Is named with both values, or with what to do."""
    assert any(said in each.found and each.level is Level.WARN for each in _options(tmp_path, text))


def test_options_that_are_the_same(tmp_path):
    """Or that nova.conf does not set, are not named."""
    assert [] == _options(
        tmp_path, "[DEFAULT]\nreserved_host_memory_mb = 512\nmy_ip = 1\n[scheduler]\nmax_attempts=3\n"
    )


def test_no_such_file(tmp_path):
    """Is a failure."""
    conf = configuration()
    (found,) = check._options(conf, str(tmp_path / "none"))
    assert Level.FAIL is found.level


class Offering(FakeAdapter):
    """A placement that offers these hosts."""

    def __init__(self, *hosts):
        super().__init__()
        self.hosts = hosts

    def get(self, path, body):
        if not path.startswith("/allocation_candidates"):
            return super().get(path, body)
        assert "resources=DISK_GB:1,MEMORY_MB:512,VCPU:1&required=!COMPUTE_STATUS_DISABLED" in path
        return Answer(200, {"allocation_requests": [{"allocations": {UUIDS[host]: {}}} for host in self.hosts]})


class Api:
    def __init__(self, *specs):
        self.specs = specs

    def read(self, work, number):
        assert work is api_queries.newest_request_specs
        return [(uuid(position), spec) for position, spec in enumerate(self.specs)][:number]


def _requests(world, adapter, *specs):
    world.host_manager.poll()
    return [each.found for each in check._requests(world.driver, Api(*specs), Placement(adapter), 20)]


def test_the_same_candidates():
    """Are counted."""
    found = _requests(World(), Offering("cmp1", "cmp2", "cmp3"), arguments()["spec_obj"])
    assert ["1 requests have the candidates that placement offers"] == found


def test_other_candidates():
    """Are named, with the filters that drop them."""
    world = World(node_row("cmp1", free_ram_mb=0), node_row("cmp2"), node_row("cmp3"))
    first, last = _requests(world, Offering("cmp1", "cmp2"), arguments()["spec_obj"])
    assert "filters here drop cmp1 (RamFilter 1)" in first
    assert "placement does not offer cmp3" in first
    assert "0 requests" in last


def test_a_request_out_of_scope():
    """Is named with its reason; the others are compared all the same."""
    refused = arguments(flavor=flavor(extra_specs={"resources:VGPU": "1"}))["spec_obj"]
    first, last = _requests(World(), Offering("cmp1", "cmp2", "cmp3"), refused, arguments()["spec_obj"])
    assert "would be refused" in first
    assert "1 requests" in last
