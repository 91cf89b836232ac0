# SPDX-License-Identifier: Apache-2.0
"""What users of an existing nova see when fleet-scheduler has taken the place of nova-scheduler."""

from __future__ import annotations

import json
import re
import signal

import kombu
import pytest
import sqlalchemy as sa

from tests.functional import nova_schema
from tests.nova.cloud import HOSTS, PLANTED, VENV, Cloud, eventually
from tests.nova.stand_ins import HYPERV_IMAGE_ID, IMAGE_ID

SMALL = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}
MEDIUM = {"VCPU": 2, "MEMORY_MB": 1024, "DISK_GB": 1}
_HOST = "OS-EXT-SRV-ATTR:host"


def _client_boot(cloud: Cloud, name: str, *more: str, check: bool = True):
    words = ("--flavor", "small", "--image", IMAGE_ID, "--nic", "none", "--wait", "-f", "json")
    return cloud.openstack("server", "create", name, *words, *more, check=check)


def _require_equal(cloud: Cloud) -> None:
    """Placement's allocations are those of the servers on their hosts."""

    def equal():
        held = {consumer: set(hosts) for consumer, hosts in cloud.allocations().items()}
        return held == cloud.placed()

    eventually(equal, 30)


def test_a_boot_with_a_hint(cloud):
    """The real client; the hint reaches the filter of the README, as nova's filters see it."""
    for host in HOSTS:
        made = _client_boot(cloud, f"web-{host}", "--hint", f"requested_host={host}")
        assert ("ACTIVE", host) == (made["status"], made[_HOST])
    assert [{host: SMALL} for host in HOSTS] == sorted(cloud.allocations().values(), key=str)
    _require_equal(cloud)


def test_an_impossible_hint(cloud):
    """The server ends in ERROR, and its fault has the reason and the filter."""
    _client_boot(cloud, "lost", "--hint", "requested_host=nowhere", check=False)
    (lost,) = cloud.servers()
    assert "ERROR" == lost["status"]
    assert "POLICY: There are not enough hosts available" in lost["fault"]["message"]
    shown = cloud.openstack("server", "show", lost["id"], "-f", "json")
    assert "SpecifiedHostFilter" in str(shown["fault"])
    assert {} == cloud.allocations()


def test_a_server_that_is_too_large(cloud):
    """The fault says what is missing, and where."""
    number = cloud.boot("huge", "huge")
    assert "ERROR" == cloud.settled(number)["status"]
    assert "NEVER_FITS" in cloud.fault(number)


def test_a_group_of_three(cloud):
    """Anti-affinity puts three servers of one request on three hosts; the fourth finds none."""
    group = cloud.openstack("server", "group", "create", "apart", "--policy", "anti-affinity", "-f", "json")["id"]
    _client_boot(cloud, "member", "--hint", f"group={group}", "--min", "3", "--max", "3")
    eventually(lambda: ["ACTIVE"] * 3 == [each["status"] for each in cloud.servers()])
    assert set(HOSTS) == {each[_HOST] for each in cloud.servers()}
    assert 0 == cloud.fleet("explain", "--flavor", "small", "--group", group)["placed"]
    assert 1 == cloud.fleet("explain", cloud.servers()[0]["id"])["placed"]  # its own host is free again without it
    fourth = cloud.boot("fourth", "small", {"group": group})
    assert "ERROR" == cloud.settled(fourth)["status"]
    assert "ServerGroupAntiAffinityFilter" in cloud.fault(fourth)
    cloud.api("DELETE", f"/servers/{fourth}")
    _require_equal(cloud)


@pytest.mark.parametrize(("action", "flavor", "moves"), [("confirm", MEDIUM, True), ("revert", SMALL, False)])
def test_a_resize(cloud, action, flavor, moves):
    """To another host; confirmed it stays there, reverted it is back. Nothing more is held in placement afterwards."""
    number = cloud.boot("grows", "small")
    before = cloud.settled(number)[_HOST]
    cloud.openstack("server", "resize", number, "--flavor", "medium", "--wait")
    resized = cloud.server(number)
    assert "VERIFY_RESIZE" == resized["status"]
    assert before != resized[_HOST]
    assert 2 == sum(len(held) for held in cloud.allocations().values())
    cloud.openstack("server", "resize", action, number)
    found = eventually(lambda: (each := cloud.server(number))["status"] == "ACTIVE" and each)
    assert moves == (found[_HOST] != before)
    eventually(lambda: {number: {found[_HOST]: flavor}} == cloud.allocations())


def test_a_live_migration(cloud):
    """To a host that the scheduler chooses."""
    number = cloud.boot("lives", "small")
    before = cloud.settled(number)[_HOST]
    cloud.openstack("server", "migrate", "--live-migration", "--wait", number)
    after = eventually(lambda: (found := cloud.server(number)[_HOST]) != before and found)
    assert "ACTIVE" == cloud.settled(number)["status"]
    eventually(lambda: {number: {after: SMALL}} == cloud.allocations())


def test_an_evacuation(cloud):
    """Of a host that is dead: it is rebuilt elsewhere, and the old host gives its part back when it returns."""
    number = cloud.boot("survives", "small")
    dead = cloud.settled(number)[_HOST]
    cloud.kill(dead)
    try:
        cloud.force_down(dead, True)
        cloud.openstack("server", "evacuate", number, check=False)
        after = eventually(lambda: (found := cloud.server(number)[_HOST]) != dead and found)
        assert {dead, after} == set(cloud.allocations()[number])
    finally:
        cloud.restart(dead)
        # nova refuses it until the host has removed what was evacuated.
        eventually(lambda: cloud.force_down(dead, False) or True)
    eventually(lambda: {number: {after: SMALL}} == cloud.allocations())


def test_a_build_that_fails_on_its_first_host(cloud):
    """nova goes to the alternate, and claims it with our allocation request."""
    first = HOSTS[0]
    cloud.kill(first)
    cloud.configure(first, "trial_drivers.FailingHost")
    cloud.restart(first)
    try:
        # That driver has far more memory than the others, once its host has reported it.
        eventually(lambda: first == cloud.fleet("explain", "--flavor", "small")["picks"][0]["host"])
        number = cloud.boot("retried", "small")
        found = cloud.settled(number)
        assert "ACTIVE" == found["status"]
        assert first != found[_HOST]
        assert {found[_HOST]: SMALL} == cloud.allocations()[number]
        placed = re.search(rf"Placed 1 instance\(s\), first {number}, on (\w+)", cloud.log("fleet-scheduler"))
        assert placed
        assert first == placed.group(1)
    finally:
        cloud.kill(first)
        cloud.configure(first, "trial_drivers.Host")
        cloud.restart(first)
    _require_equal(cloud)


def test_a_rebuild_with_another_image(cloud):
    """Is checked on the server's own host: an image for another hypervisor is refused, and the server stays as it was."""
    number = cloud.boot("rebuilt", "small")
    host = cloud.settled(number)[_HOST]
    cloud.api("POST", f"/servers/{number}/action", {"rebuild": {"imageRef": HYPERV_IMAGE_ID}})
    eventually(lambda: "ImagePropertiesFilter" in cloud.fault(number))
    eventually(lambda: cloud.server(number)["OS-EXT-STS:task_state"] is None)
    assert host == cloud.server(number)[_HOST]
    assert {number: {host: SMALL}} == cloud.allocations()


def test_a_killed_scheduler(cloud):
    """Fifty boots with a kill -9 in their middle: all end, and no host holds more than it has."""
    numbers = [cloud.boot(f"many-{number}", "small") for number in range(20)]
    cloud.kill("fleet-scheduler", signal.SIGKILL)
    numbers += [cloud.boot(f"many-{number}", "small") for number in range(20, 50)]
    cloud.start_fleet_scheduler()
    ended = [cloud.settled(number)["status"] for number in numbers]
    assert {"ACTIVE", "ERROR"} >= set(ended)
    active = {each["id"]: {each[_HOST]} for each in cloud.servers() if each["status"] == "ACTIVE"}
    held = {consumer: set(hosts) for consumer, hosts in cloud.allocations().items()}
    assert active == {consumer: hosts for consumer, hosts in held.items() if consumer in active}
    # 8 GB a host, 512 MB of them reserved: 15 servers of 512 MB each.
    assert len(active) <= 45
    assert set(held) - set(active) <= {each["id"] for each in cloud.servers() if each["status"] == "ERROR"}


def test_the_commands_of_an_operator(cloud):
    """explain, capacity, whatif, doctor, and the check before a switch, with the scheduler's own configuration file."""
    number = cloud.boot("explained", "small", {"requested_host": HOSTS[1]})
    assert HOSTS[1] == cloud.settled(number)[_HOST], cloud.fault(number)
    assert [HOSTS[1]] == [each["host"] for each in cloud.fleet("explain", number)["picks"]]
    refused = cloud.fleet("explain", "--flavor", "huge")
    assert ("NEVER_FITS", 3) == (refused["reason_code"], refused["considered"])
    # 8 GB a host, 512 MB reserved, and one server of 512 MB is there: 15 and 14 and 15.
    assert 44 == eventually(lambda: (found := cloud.fleet("capacity", "--flavor", "small")["fits"]) == 44 and found)
    figures = {each["figure"]: each["what if"] for each in cloud.fleet("whatif", "--flavor", "small", "--count", "50",
                                                                       "--more-hosts", "1", "--like", HOSTS[0])}  # fmt: skip
    assert (4, 50) == (figures["hosts"], figures["placed"])
    found = {(each["check"], each["result"]) for each in cloud.fleet("doctor", status=1)}
    assert ("scheduler", "OK") in found
    assert not [result for _check, result in found if result == "FAIL"]
    nova_conf = str(cloud.directory / "cmp1/nova.conf")
    compared = cloud.fleet("nova", "check", "--nova-conf", nova_conf, program="fleet-manage", status=1)
    # Placement offers three hosts for the server, and its hint names one.
    assert [f"{number}: filters here drop {HOSTS[0]}, {HOSTS[2]} (SpecifiedHostFilter 2)"] == [
        each["found"] for each in compared if number in each["found"]
    ]
    assert "3 compute nodes are known, 3 hosts are up" in [each["found"] for each in compared]
    _compare_with_novas_filters(cloud, number)
    with pytest.raises(AssertionError, match="use nova's own commands"):
        cloud.fleet("server", "list")


def test_what_was_decided_then(cloud):
    """By nova's own request id: the host of a boot after its server is gone, and why another found none."""
    boots = [cloud.boot("kept", "small", {"requested_host": HOSTS[2]}), cloud.boot("lost", "huge")]
    assert ["ACTIVE", "ERROR"] == [cloud.settled(number)["status"] for number in boots]
    requests = [
        cloud.api("GET", f"/servers/{number}/os-instance-actions")["instanceActions"][-1]["request_id"]
        for number in boots
    ]
    cloud.delete_all()
    placed, refused = (eventually(lambda number=number: _kept(cloud, number)) for number in requests)
    assert ("placed", [(boots[0], HOSTS[2])]) == (
        placed["outcome"],
        [(pick["instance_uuid"], pick["host"]) for pick in placed["picks"]],
    )
    assert "SpecifiedHostFilter" in {each["name"] for each in placed["filters"]}
    assert ("refused", "NEVER_FITS") == (refused["outcome"], refused["reason_code"])


def test_notifications_of_a_boot(cloud):
    """As nova-scheduler sends them, under this scheduler's name: a start and an end, in both forms."""
    number = cloud.boot("notified", "tiny")
    assert "ACTIVE" == cloud.settled(number)["status"]
    events = ["scheduler.select_destinations.start", "scheduler.select_destinations.end"]
    versioned = eventually(lambda: _of(number, _notifications(cloud, "versioned_notifications.info")))
    assert events == [each["event_type"] for each in versioned]
    assert {"nova-scheduler:fleet-scheduler"} == {each["publisher_id"] for each in versioned}
    older = _of(number, _notifications(cloud, "notifications.info"))
    assert events == [each["event_type"] for each in older]
    assert {"scheduler.fleet-scheduler"} == {each["publisher_id"] for each in older}


def test_the_row_in_the_list_of_services(cloud):
    """nova's API shows the scheduler as a nova-scheduler that is up."""
    eventually(lambda: cloud.is_up("nova-scheduler", "fleet-scheduler"))
    assert "list of services cannot be written" not in cloud.log("fleet-scheduler")


def _of(number: str, found: list[dict]) -> list[dict]:
    return [each for each in found if number in json.dumps(each["payload"])]


def _notifications(cloud: Cloud, queue: str) -> list[dict]:
    """Take all messages out of a queue."""
    found = []
    with kombu.Connection(cloud.broker_url.replace("rabbit://", "amqp://")) as connection:
        channel = connection.channel()
        while (each := channel.basic_get(queue, no_ack=True)) is not None:
            found.append(json.loads(json.loads(each.body)["oslo.message"]))
    return found


def _kept(cloud: Cloud, request_id: str):
    """None until the scheduler has written it."""
    try:
        return cloud.fleet("explain", "--request", request_id)
    except AssertionError:
        return None


def _compare_with_novas_filters(cloud: Cloud, server: str) -> None:
    """For a server with a hint that only the filters here know, and with a filter that only nova has."""
    nova_conf = cloud.directory / "isolating.conf"
    isolating = (
        f"[filter_scheduler]\nenabled_filters = ComputeFilter,IsolatedHostsFilter\nisolated_hosts = {HOSTS[1]}\n"
    )
    nova_conf.write_text((cloud.directory / "cmp1/nova.conf").read_text().replace("[filter_scheduler]\n", isolating))
    words = ("--nova-conf", str(nova_conf), "--nova-python", str(VENV / "bin/python"), "--server", server)
    compared = cloud.fleet("nova", "check", *words, program="fleet-manage", status=1)
    assert [
        f"{server}: filters here drop {HOSTS[0]}, {HOSTS[2]} (SpecifiedHostFilter 2); "
        f"placement and nova's filters refuse {HOSTS[1]}"
    ] == [each["found"] for each in compared if server in each["found"]]
    assert "only nova has IsolatedHostsFilter" in [each["found"] for each in compared]


def test_a_shadow_beside_nova_scheduler(cloud, tmp_path):
    """nova-scheduler answers as before; the shadow decides the same requests, claims nothing, and reports."""
    report = tmp_path / "shadow.json"
    cloud.kill("fleet-scheduler", signal.SIGTERM)
    cloud.start_nova_scheduler()
    cloud.start_fleet_scheduler("shadow", f"[shadow]\nreport_file = {report}\n[DEFAULT]\n", ["--shadow"])
    try:
        eventually(lambda: "Copies of the messages" in cloud.log("shadow"))
        numbers = [cloud.boot(f"shadowed-{number}", "small") for number in range(10)]
        assert {"ACTIVE"} == {cloud.settled(number)["status"] for number in numbers}
        _require_equal(cloud)
        lost = cloud.boot("shadowed-huge", "huge")
        assert "ERROR" == cloud.settled(lost)["status"]
        words = ("shadow", "report", "--file", str(report))
        found = eventually(lambda: report.exists() and cloud.fleet(*words, program="fleet-manage"))
        eventually(lambda: sum(each["servers"] for each in cloud.fleet(*words, program="fleet-manage")) >= 10)
        found = cloud.fleet(*words, program="fleet-manage")
        # Both choose by weight among three equal hosts, and nova's choice of equal ones is its own.
        assert {"same", "fits"} >= {each["outcome"] for each in found}
        assert {"small"} == {each["flavor"] for each in found}
        assert "NEVER_FITS" not in cloud.log("nova-scheduler")
    finally:
        cloud.kill("shadow", signal.SIGTERM)
        cloud.kill("nova-scheduler", signal.SIGTERM)
        cloud.start_fleet_scheduler()


def test_no_token_in_the_log(cloud):
    """With debug lines, after all that was done."""
    assert PLANTED not in cloud.log("fleet-scheduler")
    assert 'transport_url"' not in re.sub(r"(?m)^.*oslo_service.*$", "", cloud.log("fleet-scheduler"))


def test_the_tables_that_are_read(cloud):
    """The schema that nova-manage makes has the columns of the functional tests, and the role may only read."""
    for database, metadata in (
        ("nova_api", nova_schema.API),
        ("nova", nova_schema.CELL),
        ("placement", nova_schema.PLACEMENT),
    ):
        engine = sa.create_engine(cloud.url(database), poolclass=sa.NullPool)
        inspector = sa.inspect(engine)
        for table in metadata.sorted_tables:
            real = {column["name"] for column in inspector.get_columns(table.name)}
            assert set() == {column.name for column in table.columns} - real
            there = {index["name"]: index["column_names"] for index in inspector.get_indexes(table.name)}
            for index in table.indexes:
                assert [column.name for column in index.columns] == there[index.name]
    reader = sa.create_engine(cloud.url("nova", "reader"), poolclass=sa.NullPool)
    with pytest.raises(sa.exc.DBAPIError), reader.begin() as connection:
        connection.execute(sa.text("DELETE FROM services"))
