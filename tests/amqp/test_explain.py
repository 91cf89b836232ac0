# SPDX-License-Identifier: Apache-2.0
"""Explanations over a real broker, from the command line as an operator types it."""

from __future__ import annotations

import json

import pytest

from tests.amqp.daemons import Trio, eventually


def explained(trio: Trio, *argv: str) -> dict:
    done = trio.cli(*argv, "-f", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_refused_request_and_its_fault_agree(trio: Trio) -> None:
    """explain before the request, the fault after it and the log line give the same reason."""
    flavor = {"vcpus": 1, "memory_mb": 10**6}
    answer = explained(trio, "explain", "--flavor", "vcpus=1,memory_mb=1000000")
    (uuid,) = trio.boot(flavor=flavor, name="huge")
    assert trio.wait_for([uuid], "active", "error")[uuid] == "error"
    (fault,) = trio.show(uuid)["faults"]
    assert answer["reason_code"] == fault["details"]["reason_code"] == "NEVER_FITS"
    assert [miss["host"] for miss in answer["nearest"]] == [miss["host"] for miss in fault["details"]["nearest"]]
    assert f"{answer['nearest'][0]['host']} lacks " in fault["message"]
    again = explained(trio, "explain", uuid)
    assert (again["reason_code"], again["considered"]) == ("NEVER_FITS", answer["considered"])
    assert f"first {uuid}: NEVER_FITS: " in trio.log("scheduler")


def test_what_is_explained_is_not_booked(trio: Trio) -> None:
    """Any number of dry runs leaves as much room as there was."""
    before = explained(trio, "capacity", "--flavor", "vcpus=1,memory_mb=4096")
    for _ in range(3):
        answer = explained(trio, "explain", "--flavor", "vcpus=1,memory_mb=4096", "--count", "5")
        assert (answer["placed"], answer["reason_code"]) == (5, None)
        assert answer["scores"]
    assert explained(trio, "capacity", "--flavor", "vcpus=1,memory_mb=4096")["fits"] == before["fits"] > 0


def test_an_aggregate_counts_for_the_next_request(trio: Trio) -> None:
    """A request for a zone succeeds right after the zone was created."""
    trio.operator("create_aggregate", name="fresh", metadata={"availability_zone": "fresh"})
    trio.operator("add_aggregate_host", name="fresh", host="b1")
    answer = explained(trio, "explain", "--flavor", "vcpus=1,memory_mb=64", "--availability-zone", "fresh")
    assert [pick["host"] for pick in answer["picks"]] == ["b1"]
    trio.operator("remove_aggregate_host", name="fresh", host="b1")


def test_what_would_become_of_the_instances_of_a_host(trio: Trio) -> None:
    """whatif places each instance of the removed host on the other hosts; nothing is moved."""
    uuids = trio.boot(count=4, flavor={"vcpus": 1, "memory_mb": 256}, name="moving")
    trio.wait_for(uuids, "active")
    before = {row["uuid"]: row["host"] for row in trio.operator("list_instances", filters={})}
    host = before[uuids[0]]
    there = sum(each == host for each in before.values())
    found = {row["figure"]: row["what if"] for row in explained(trio, "whatif", "--without-host", host)}
    assert (there, there, 0) == (found["instances"], found["placed"], found["refused"])
    both = explained(trio, "whatif", "--flavor", "vcpus=1,memory_mb=256", "--count", "3", "--ratio", "ram=0.000001")
    rows = {row["figure"]: (row["now"], row["what if"]) for row in both}
    assert (3, 0) == rows["placed"]
    assert before == {row["uuid"]: row["host"] for row in trio.operator("list_instances", filters={})}


@pytest.mark.parametrize("named", ["host = second\n", ""])
def test_two_schedulers_divide_the_hosts(trio: Trio, named: str) -> None:
    """Each answers with its own share, six hosts in all. When one is killed, the other has no share any more.

    It makes no difference if both have the same ``host``, except a warning.
    """
    asked = ("explain", "--flavor", "vcpus=1,memory_mb=64")

    def shares_add_up() -> bool:
        """Both may have been asked, and each knows of the other."""
        found = [explained(trio, *asked)["share"] for _number in range(4)]
        sizes = {share["hosts"] for share in found if share is not None}
        return None not in found and (sum(sizes) == 6 or sizes == {3})

    own = trio.directory / "second.conf"
    own.write_text(f"[DEFAULT]\n{named}")
    trio.start("second", "fleet-scheduler", "--config-file", str(own))
    try:
        eventually(shares_add_up)
        uuids = trio.boot(count=4, flavor={"vcpus": 1, "memory_mb": 64}, name="shared")
        assert {"active"} == set(trio.wait_for(uuids, "active", "error").values())
        assert (not named) == ("Another fleet-scheduler has the name" in trio.log("second"))
        trio.kill("second")
        eventually(lambda: all(explained(trio, *asked)["share"] is None for _number in range(2)))
    finally:
        trio.forget("second")
