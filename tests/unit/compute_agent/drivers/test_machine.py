# SPDX-License-Identifier: Apache-2.0
"""Tests of reading the kernel's files, on made-up ones."""

from __future__ import annotations

import pathlib

import pytest

from compute_agent.drivers import machine


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0-3,8\n", [0, 1, 2, 3, 8]), ("5", [5]), ("", []), ("0-0", [0])],
)
def test_cpu_list(text: str, expected: list[int]) -> None:
    """The kernel's list format."""
    assert expected == machine.cpu_list(text)


def put(root: pathlib.Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_numa_topology(tmp_path: pathlib.Path) -> None:
    """Two cells in the order of their numbers, with siblings and huge pages."""
    for node, cpus in ((10, "2-3"), (2, "0-1")):
        put(tmp_path, f"node/node{node}/cpulist", cpus)
        put(tmp_path, f"node/node{node}/meminfo", f"Node {node} MemTotal:  1048576 kB\nNode {node} MemFree: 1 kB\n")
    put(tmp_path, "node/node2/hugepages/hugepages-2048kB/nr_hugepages", "256\n")
    put(tmp_path, "node/node2/hugepages/hugepages-2048kB/free_hugepages", "200\n")
    for cpu in (0, 1):
        put(tmp_path, f"cpu/cpu{cpu}/topology/thread_siblings_list", "0-1\n")
    for cpu in (2, 3):
        put(tmp_path, f"cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu}\n")
    put(tmp_path, "cpu/cpu0/topology/physical_package_id", "1\n")
    topology = machine.numa_topology(tmp_path)
    assert topology is not None
    first, second = topology["cells"]
    assert (2, [0, 1], 1024, [[0, 1]]) == (first["id"], first["cpuset"], first["memory"], first["siblings"])
    assert [
        {"size_kb": 4, "total": 131072},  # (1 GiB - 256 * 2 MiB) / 4 KiB
        {"size_kb": 2048, "total": 256, "reserved": 56},
    ] == first["mempages"]
    assert (10, [2, 3], []) == (second["id"], second["cpuset"], second["siblings"])
    assert (1, None) == (first["socket"], second["socket"])


def test_a_machine_without_numa_has_no_topology(tmp_path: pathlib.Path) -> None:
    """None, as the interface has it, and not an empty list of cells."""
    assert machine.numa_topology(tmp_path) is None
