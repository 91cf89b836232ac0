# SPDX-License-Identifier: Apache-2.0
"""The decision over columns equals the obvious one, host by host."""

from __future__ import annotations

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import filters, weights
from tests import factories
from tests.unit.scheduler import reference

HOSTS = 7
NAMES = [f"host{number}" for number in range(HOSTS)]
# Few distinct values, so that hosts tie and requests just fit.
NODES = st.builds(
    lambda **columns: columns,
    vcpus=st.sampled_from([0, 4, 8]),
    vcpus_used=st.integers(0, 9),
    reserved_vcpus=st.sampled_from([0, 1]),
    cpu_allocation_ratio=st.sampled_from([1.0, 1.5, 16.0]),
    memory_mb=st.sampled_from([4096, 8192]),
    memory_mb_used=st.sampled_from([0, 512, 4096, 9000]),
    reserved_memory_mb=st.sampled_from([0, 512]),
    ram_allocation_ratio=st.sampled_from([1.0, 1.5]),
    local_gb=st.sampled_from([20, 100]),
    local_gb_used=st.sampled_from([0, 10, 95]),
    reserved_disk_gb=st.sampled_from([0, 5]),
    disk_allocation_ratio=st.sampled_from([1.0, 2.0]),
    io_workload=st.integers(0, 2),
)
SIZES = st.fixed_dictionaries(
    {
        "vcpus": st.sampled_from([1, 2, 5]),
        "memory_mb": st.sampled_from([512, 1024, 4096]),
        "root_gb": st.sampled_from([0, 5]),
        "ephemeral_gb": st.sampled_from([0, 1]),
        "swap": st.sampled_from([0, 512]),
    }
)
MEMBERS = [factories.uuid(1), factories.uuid(2), factories.uuid(1000), factories.uuid(1001)]
GROUPS = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "group_policies": st.sampled_from([["affinity"], ["anti-affinity"], ["soft-affinity"]]),
            "group_updated": st.just(True),
            "group_hosts": st.lists(st.sampled_from(NAMES[:3]), max_size=2),
            "group_members": st.sampled_from([[], MEMBERS]),
            "group_max_server_per_host": st.sampled_from([1, 2]),
        }
    ),
)
RETRIES = st.one_of(
    st.none(),
    st.lists(st.sampled_from(NAMES), max_size=2).map(lambda hosts: {"hosts": [[host, host] for host in hosts]}),
)


def real(node_list, asked, alternates, placed):
    """What the scheduler decides, in the reference's terms."""
    chosen = (
        filters.RetryFilter(),
        filters.RamFilter(),
        filters.CoreFilter(),
        filters.DiskFilter(),
        filters.ComputeFilter(),
        filters.ServerGroupAntiAffinityFilter(),
        filters.ServerGroupAffinityFilter(),
    )
    weighers = [
        weights.RAMWeigher(),
        weights.DiskWeigher(),
        weights.CPUWeigher(),
        weights.IoOpsWeigher(-1.0),
    ]
    instances = [factories.PlacedInstance(uuid, host, host) for uuid, host in placed.items()]
    hosts = factories.candidates(*node_list, instances=instances)
    made = factories.decision(factories.pipeline(chosen, weighers, alternates=alternates), hosts, asked)
    others = [[place.host for place in pick.alternates] for pick in made.picks] if made.complete else []
    return [pick.key[0] for pick in made.picks], others


@settings(max_examples=400, deadline=None)
@given(
    nodes=st.lists(NODES, min_size=1, max_size=HOSTS),
    sizes=SIZES,
    count=st.integers(1, 6),
    group=GROUPS,
    retry=RETRIES,
    placed=st.dictionaries(st.sampled_from(MEMBERS[:2]), st.sampled_from(NAMES[:2])),
)
def test_same_hosts_and_alternates_as_host_by_host(nodes, sizes, count, group, retry, placed):
    """Whatever the hosts and the request, both choose the same hosts in the same order, with the same alternates."""
    node_list = [factories.node(name, **columns) for name, columns in zip(NAMES, nodes, strict=False)]
    asked = factories.request(sizes, count=count, retry=retry, **group)
    expected = reference.select([dataclasses.replace(node) for node in node_list], asked, 2, placed)
    assert expected == real(node_list, asked, 2, placed)
