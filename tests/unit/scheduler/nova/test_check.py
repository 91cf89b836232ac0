# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage nova check``: options that differ, and hosts that placement and the filters here do not both offer."""

from __future__ import annotations

import json
import runpy
import sys
import types
import urllib.parse

import pytest

from fleet import errors
from fleet.checks.findings import Level
from scheduler.nova import check, comparison, nova_filters, nova_options
from scheduler.nova import conf as nova_conf
from scheduler.nova.nova_filters import NovaFilters
from scheduler.nova.placement import Placement
from tests.factories import uuid
from tests.unit.scheduler.nova.recordings import arguments, flavor
from tests.unit.scheduler.nova.test_claims import Answer, FakeAdapter, candidates
from tests.unit.scheduler.nova.worlds import UUIDS, EndpointInMemory, node_row
from tests.unit.scheduler.plugins import configuration

#: The options of nova 34 by section, as its sample has them.
_NOVAS = {
    "scheduler": "discover_hosts_in_cells_interval enable_isolated_aggregate_filtering image_metadata_prefilter"
    " limit_tenants_to_placement_aggregate max_attempts max_placement_results placement_aggregate_required_for_tenants"
    " query_placement_for_image_type_support query_placement_for_routed_network_aggregates workers",
    "filter_scheduler": "aggregate_image_properties_isolation_namespace aggregate_image_properties_isolation_separator"
    " available_filters build_failure_weight_multiplier cpu_weight_multiplier cross_cell_move_weight_multiplier"
    " disk_weight_multiplier enabled_filters host_subset_size hypervisor_version_weight_multiplier"
    " image_properties_default_architecture image_props_weight_multiplier image_props_weight_setting"
    " io_ops_weight_multiplier isolated_hosts isolated_images max_instances_per_host max_io_ops_per_host"
    " num_instances_weight_multiplier pci_in_placement pci_weight_multiplier ram_weight_multiplier"
    " restrict_isolated_hosts_to_isolated_images shuffle_best_same_weighed_hosts soft_affinity_weight_multiplier"
    " soft_anti_affinity_weight_multiplier track_instance_changes weight_classes",
    "metrics": "required weight_multiplier weight_of_unavailable weight_setting",
}
#: A line of nova.conf, and words of the finding.
OPTIONS = [
    ("[scheduler]\nmax_attempts = 5\n", "[scheduler] max_attempts = 5, here it is 3"),
    ("[DEFAULT]\nreserved_host_memory_mb = 2048\n", "reserved_host_memory_mb = 2048, here it is 512"),
    (
        "[filter_scheduler]\nenabled_filters = ComputeFilter, MyFilter\n",
        "nova has MyFilter, which are not available here",
    ),
    ("[filter_scheduler]\nenabled_filters = ComputeFilter, JsonFilter\n", "only nova has JsonFilter"),
    ("[filter_scheduler]\nenabled_filters = ComputeFilter\n", "only here are ComputeCapabilitiesFilter"),
    ("", "only here are NUMATopologyFilter, PciPassthroughFilter"),  # nova's default list has neither
    ("[scheduler]\nimage_metadata_prefilter = true\n", "image_metadata_prefilter = true, here it is False"),
    ("[scheduler]\nmax_placement_results = 50\n", "max_placement_results = 50, here it is 1000"),
    ("[scheduler]\ndiscover_hosts_in_cells_interval = 300\n", "nova-manage cell_v2 discover_hosts"),
    ("[scheduler]\nquery_placement_for_routed_network_aggregates = yes\n", "routed networks are not looked up"),
    ("[filter_scheduler]\ncross_cell_move_weight_multiplier = 5\n", "here it is 1000000.0"),
    ("[filter_scheduler]\ncpu_weight_multiplier = 2.5\n", "cpu_weight_multiplier = 2.5, here it is 1.0"),
    ("[filter_scheduler]\nisolated_hosts = cmp1\n", "isolated_hosts = cmp1, here it is []"),
    ("[metrics]\nrequired = false\n", "[metrics] required = false, here it is True"),
    ("[notifications]\nnotification_format = both\n", "notification_format = both, here it is unversioned"),
    ("[workarounds]\ndisable_fallback_pcpu_query = true\n", "disable_fallback_pcpu_query = true, here it is False"),
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
    text = (
        "[DEFAULT]\nreserved_host_memory_mb = 512\nmy_ip = 1\n[scheduler]\nmax_attempts=3\nworkers = 9\n"
        "discover_hosts_in_cells_interval = -1\nlimit_tenants_to_placement_aggregate = no\n[filter_scheduler]\n"
        "ram_weight_multiplier = 1\ntrack_instance_changes = false\npci_in_placement = true\nisolated_images =\n"
    )
    assert ["filters"] == [each.check for each in _options(tmp_path, text)]


def test_every_option_of_nova_scheduler_is_known():
    """Of nova 34: compared by value, compared apart, named as doing nothing here, or not needed."""
    conf = configuration()
    nova_conf.register_opts(conf)
    known = {*nova_options.ours(conf), *nova_options._APART, *nova_options.NOT_DONE, *nova_options.NOT_NEEDED}
    assert set() == {(section, name) for section, names in _NOVAS.items() for name in names.split()} - known


def test_options_that_do_nothing_are_named_at_start():
    """If they are set, with the reason."""
    conf = configuration()
    nova_conf.register_opts(conf)
    assert [] == list(nova_options.unread(conf))
    conf.set_override("discover_hosts_in_cells_interval", "60", "scheduler")
    (sentence,) = nova_options.unread(conf)
    assert "[scheduler] discover_hosts_in_cells_interval = 60 does nothing here" in sentence


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "No such file or directory"),
        ("[scheduler]\n# Grüße\n".encode("latin-1"), "UnicodeDecodeError"),
        (b"password = secret\n", "MissingSectionHeaderError"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, problem):
    """Is one failure with the path, and without a line of the file."""
    path = tmp_path / "nova.conf"
    if content is not None:
        path.write_bytes(content)
    (found,) = check._options(configuration(), str(path))
    assert (Level.FAIL, f"{path} cannot be read: {problem}") == (found.level, found.found)


class Offering(FakeAdapter):
    """A placement that offers these hosts."""

    def __init__(self, *hosts):
        super().__init__()
        self.hosts = hosts

    def get(self, path, body):
        if not path.startswith("/allocation_candidates"):
            return super().get(path, body)
        query = dict(urllib.parse.parse_qsl(path.partition("?")[2]))
        if "VGPU" in query["resources"]:
            return Answer(400, {"errors": [{"title": "Bad Request", "detail": "No such resource class VGPU"}]})
        amounts = {"resources": "DISK_GB:1,MEMORY_MB:512,VCPU:1"}
        assert {**amounts, "root_required": "!COMPUTE_STATUS_DISABLED"} == query
        return Answer(200, candidates([UUIDS[host] for host in self.hosts]))


def _compared(world, adapter, *specs, nova=None):
    world.host_manager.poll()
    requests = [(uuid(position), spec) for position, spec in enumerate(specs)]
    return [each.found for each in comparison.compare(world.driver, Placement(adapter), requests, nova)]


def test_the_same_candidates():
    """Are counted."""
    found = _compared(EndpointInMemory(), Offering("cmp1", "cmp2", "cmp3"), arguments()["spec_obj"])
    assert ["1 requests have the candidates that placement offers"] == found


def test_other_candidates():
    """Are named, with the filters that drop them."""
    world = EndpointInMemory(node_row("cmp1", free_ram_mb=0), node_row("cmp2"), node_row("cmp3"))
    first, last = _compared(world, Offering("cmp1", "cmp2"), arguments()["spec_obj"])
    assert "filters here drop cmp1 (RamFilter 1)" in first
    assert "placement does not offer cmp3" in first
    assert "0 requests" in last


def test_a_request_that_placement_refuses():
    """Is named with its reason; the others are compared all the same."""
    refused = arguments(flavor=flavor(extra_specs={"resources:VGPU": "1"}))["spec_obj"]
    first, last = _compared(EndpointInMemory(), Offering("cmp1", "cmp2", "cmp3"), refused, arguments()["spec_obj"])
    assert "would be refused" in first
    assert "1 requests" in last


@pytest.fixture
def nova_python(tmp_path):
    """Makes interpreters of an installed nova: programs that answer with the text given, or fail with it."""

    def make(answer: str, status: int = 0) -> NovaFilters:
        path = tmp_path / "python"
        stream = "&2" if status else "&1"
        path.write_text(f"#!/bin/sh\ncat > {tmp_path}/asked\necho '{answer}' >{stream}\nexit {status}\n")
        path.chmod(0o755)
        return NovaFilters(str(path), "/etc/nova/nova.conf")

    return make


def test_with_novas_own_filters(tmp_path, nova_python):
    """What passes there is compared; they get what placement offers."""
    filters = nova_python(json.dumps([[UUIDS["cmp1"]]]))
    spec = arguments()["spec_obj"]
    first, last = _compared(EndpointInMemory(), Offering("cmp1", "cmp2"), spec, nova=filters)
    assert "placement and nova's filters refuse cmp2, cmp3" in first
    assert "0 requests have the candidates that pass nova's filters" == last
    offers = {
        root: [each]
        for root, each in zip(
            [UUIDS["cmp1"], UUIDS["cmp2"]],
            candidates([UUIDS["cmp1"], UUIDS["cmp2"]])["allocation_requests"],
            strict=True,
        )
    }
    assert [{"spec": spec, "offers": offers}] == json.loads((tmp_path / "asked").read_text())


@pytest.mark.parametrize(("known", "passing"), [({"allocation_candidates": []}, ["u1"]), ({}, [])])
def test_the_hosts_of_novas_filters_have_their_candidates(monkeypatch, known, passing):
    """Where nova's host states have the attribute: a filter of nova 34 drops hosts without any."""

    class HostManager:
        def get_host_states_by_uuids(self, _context, uuids, _spec):
            return iter([types.SimpleNamespace(uuid=uuid, **known) for uuid in uuids])

        def get_filtered_hosts(self, states, _spec):
            return [each for each in states if getattr(each, "allocation_candidates", None)]

    nova = types.SimpleNamespace(
        config=None,
        context=types.SimpleNamespace(get_admin_context=lambda: None),
        objects=types.SimpleNamespace(RequestSpec=types.SimpleNamespace(obj_from_primitive=lambda spec: spec)),
        host_manager=types.SimpleNamespace(HostManager=HostManager),
    )
    monkeypatch.setitem(sys.modules, "nova", nova)
    monkeypatch.setitem(sys.modules, "nova.scheduler", nova)
    program = runpy.run_path(str(nova_filters._PROGRAM))
    assert passing == program["_passing"](HostManager(), {}, {"u1": [{"allocations": {}, "mappings": {}}]})


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [("ImportError: nova", 1, "ImportError: nova"), ("nonsense", 0, "Expecting value")],
)
def test_novas_filters_cannot_be_run(nova_python, answer, status, said):
    """The error names the option and has the last line that the other Python wrote."""
    with pytest.raises(errors.ConfigError, match=f"--nova-python.*{said}"):
        nova_python(answer, status).passing([])


def test_no_such_python():
    with pytest.raises(errors.ConfigError, match="--nova-python.*No such file"):
        NovaFilters("/nowhere/python", "nova.conf").passing([])
