# SPDX-License-Identifier: Apache-2.0
"""The ``openstack`` client as it is installed from the package registry, against ``fleet-api`` and the trio."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest

from tests import factories
from tests.amqp.daemons import Trio, eventually
from tests.amqp.openstack_client import VENV, Client, environment, runner
from tests.amqp.test_api import Api, api

__all__ = ["api"]


@pytest.fixture(scope="module")
def openstack(api: Api, trio: Trio) -> Client:
    """Runs the client with the three variables of the documentation."""
    run = runner({"OS_AUTH_TYPE": "none", "OS_ENDPOINT": f"{api.url}/v2.1", "OS_IDENTITY_API_VERSION": "3"})
    trio.cli("image", "create", "cirros", "--location", "/images/cirros.raw", "--min-disk", "1")
    run("flavor create --ram 512 --disk 1 --vcpus 1 tiny", from_script=True)
    return run


BOOT = "server create --flavor tiny --image cirros --nic none --wait"


def test_the_story(openstack: Client) -> None:
    """The command with which this project began, and all that one does with the server."""
    made = openstack(f"{BOOT} --hint requested_host=a3 web")
    assert ("ACTIVE", "a3") == (made["status"], made["OS-EXT-SRV-ATTR:host"])
    (listed,) = openstack("server list")
    assert (made["id"], "web", "ACTIVE", "cirros", "tiny") == tuple(
        listed[key] for key in ("ID", "Name", "Status", "Image", "Flavor")
    )
    assert "requested_host" in str(openstack("server show web"))
    openstack("server delete --wait web", form="")
    assert [] == openstack("server list")


@pytest.mark.long
def test_an_impossible_hint(openstack: Client) -> None:
    """The client says that it failed; the server says why."""
    assert "Error creating server" in openstack(f"{BOOT} --hint requested_host=nowhere lost", status=1)
    assert "SpecifiedHostFilter" in openstack("server show lost")["fault"]["message"]


def test_resize_and_migrate(openstack: Client) -> None:
    openstack("flavor create --ram 1024 --disk 1 --vcpus 2 double")
    openstack(f"{BOOT} grows")
    openstack("server resize --flavor double --wait grows", form="")
    assert "VERIFY_RESIZE" == openstack("server show grows")["status"]
    openstack("server resize confirm grows", form="")
    done = {each["Action"]: each["Request ID"] for each in openstack("server event list grows")}
    assert {"create", "resize", "confirmResize"} >= done.keys() >= {"create", "resize"}
    assert "compute_resize" in str(openstack(f"server event show grows {done['resize']}"))
    (moved,) = openstack("server migration list --server grows")
    assert moved["Old Flavor"] != moved["New Flavor"]
    eventually(lambda: openstack("server show grows")["status"] == "ACTIVE")


@pytest.mark.long
def test_a_live_migration(openstack: Client) -> None:
    """The client waits for it. One that is over can neither be shown nor aborted."""
    openstack(f"{BOOT} --wait moves")
    before = openstack("server show moves")["OS-EXT-SRV-ATTR:host"]
    openstack("server migrate --live-migration --wait moves", form="")
    after = openstack("server show moves")
    assert ("ACTIVE", True) == (after["status"], before != after["OS-EXT-SRV-ATTR:host"])
    (done,) = openstack("server migration list --server moves --type live-migration")
    assert ("completed", before) == (done["Status"], done["Source Compute"])
    for word in ("show", "abort"):
        assert "migration" in openstack(f"server migration {word} moves {done['Id']}", status=1, form="")
    refused = openstack("server migrate --live-migration --shared-migration moves", status=1, form="")
    assert "block_migration" in refused
    openstack("server delete --wait moves", form="")


@pytest.mark.long
def test_key_pairs_and_user_data(openstack: Client, tmp_path: pathlib.Path) -> None:
    """A key that the client reads, and one that it makes; user data are shown to nobody."""
    (tmp_path / "mine.pub").write_text(f"{factories.PUBLIC_KEY}\n")
    (tmp_path / "data").write_text("#!/bin/sh\n# open-sesame\n")
    openstack(f"keypair create --public-key {tmp_path}/mine.pub mine")
    openstack(f"keypair create --private-key {tmp_path}/new new", form="")
    assert {"mine", "new"} == {each["Name"] for each in openstack("keypair list")}
    found = openstack("keypair show mine")
    assert (factories.FINGERPRINT, "ssh") == (found["fingerprint"], found["type"])
    shown = openstack(f"{BOOT} --key-name mine --user-data {tmp_path}/data keyed")
    assert ("ACTIVE", "mine") == (shown["status"], shown["key_name"])
    assert "sesame" not in json.dumps(shown)
    openstack("keypair delete mine new", form="")
    assert [] == openstack("keypair list")


@pytest.mark.long
def test_stop_start_reboot_suspend_and_resume(openstack: Client, trio: Trio) -> None:
    openstack(f"{BOOT} power")

    def is_now(vm_state: str) -> bool:
        found = trio.operator("show_instance", name="power")["instance"]
        return (vm_state, None) == (found["vm_state"], found["task_state"])

    openstack("server stop power", form="")
    eventually(lambda: is_now("stopped"), timeout_s=60)
    assert ["power"] == [each["Name"] for each in openstack("server list --status SHUTOFF")]
    openstack("server start power", form="")
    eventually(lambda: is_now("active"), timeout_s=60)
    openstack("server reboot --hard --wait power", form="")
    assert "it must be off" in openstack("server start power", form="", status=1)
    openstack("server suspend power", form="")
    eventually(lambda: is_now("suspended"), timeout_s=60)
    assert ["power"] == [each["Name"] for each in openstack("server list --status SUSPENDED")]
    openstack("server resume power", form="")
    eventually(lambda: is_now("active"), timeout_s=60)


@pytest.mark.long
def test_lock_rebuild_and_reset(openstack: Client, trio: Trio) -> None:
    """The client waits for the rebuild; the server has another image then, and the state that an administrator sets."""
    trio.cli("image", "create", "debian", "--location", "/images/debian.raw")
    made = openstack(f"{BOOT} --hostname first.example --password open-sesame rebuilt")
    assert "open-sesame" == made["adminPass"]
    openstack("server lock --reason audit rebuilt", form="")
    (listed,) = openstack("server list --locked")
    assert "rebuilt" == listed["Name"]
    openstack("server unlock rebuilt", form="")
    assert [] == openstack("server list --locked")
    openstack("server rebuild --image debian --property a=b --wait rebuilt", form="")
    shown = openstack("server show rebuilt")
    assert ("ACTIVE", {"a": "b"}, "first.example") == (
        shown["status"],
        shown["properties"],
        shown["OS-EXT-SRV-ATTR:hostname"],
    )
    assert "debian" in str(shown["image"])
    openstack("server shelve rebuilt", form="")
    eventually(lambda: openstack("server show rebuilt")["status"] == "SHELVED_OFFLOADED", timeout_s=60)
    assert openstack("server show rebuilt")["OS-EXT-SRV-ATTR:host"] in (None, "None")
    openstack("server unshelve rebuilt", form="")
    eventually(lambda: openstack("server show rebuilt")["status"] == "ACTIVE", timeout_s=60)
    openstack("server set --state error --auto-approve rebuilt", form="")
    assert "An administrator has set the state" in openstack("server show rebuilt")["fault"]["message"]
    openstack("server set --state active --auto-approve rebuilt", form="")
    assert "ACTIVE" == openstack("server show rebuilt")["status"]
    done = {each["Action"] for each in openstack("server event list rebuilt")}
    assert {"create", "lock", "unlock", "rebuild", "shelve", "unshelve", "resetState"} == done
    openstack("server delete --wait rebuilt", form="")


@pytest.mark.long
def test_a_new_name_metadata_and_tags(openstack: Client) -> None:
    openstack(f"{BOOT} --property keeps=1 --tag first --description mine --wait before")
    openstack("server set --name after --property more=2 --tag second --description ours before", form="")
    openstack("server unset --property keeps --tag first after", form="")
    shown = openstack("server show after")
    assert ({"more": "2"}, ["second"], "ours") == (shown["properties"], shown["tags"], shown["description"])
    assert ["after"] == [each["Name"] for each in openstack("server list --tags second")]
    assert [] == [each["Name"] for each in openstack("server list --name after --not-tags second")]
    openstack("server delete --wait after", form="")


#: Read commands of which a newcomer tries each, and a word that the answer has.
SHOWN = [
    ("flavor list", "tiny"),
    ("flavor show tiny", "512"),
    ("image list", "cirros"),
    ("image show cirros", "raw"),
    ("hypervisor list", "a1"),
    ("hypervisor show a1", "a1"),
    ("hypervisor stats show", "96"),
    ("compute service list", "nova-compute"),
    ("availability zone list --compute", "nova"),
    ("limits show --absolute", "-1"),
]


@pytest.mark.parametrize(("line", "word"), SHOWN, ids=[line for line, _word in SHOWN])
def test_shown(openstack: Client, line: str, word: str) -> None:
    assert word in json.dumps(openstack(line))


@pytest.mark.long
def test_aggregates_and_groups(openstack: Client) -> None:
    openstack("aggregate create --zone az9 ssds")
    openstack("aggregate add host ssds a1")
    openstack("aggregate set --property ssd=true ssds", form="")
    shown = openstack("aggregate show ssds")
    assert (["a1"], "az9") == (shown["hosts"], shown["availability_zone"])
    assert "az9" in json.dumps(openstack("availability zone list --compute --long"))
    openstack("aggregate remove host ssds a1")
    openstack("aggregate delete ssds", form="")
    assert "ssds" not in json.dumps(openstack("aggregate list"))
    openstack("server group create --policy anti-affinity --rule max_server_per_host=2 pair")
    assert 2 == openstack("server group show pair")["rules"]["max_server_per_host"]
    openstack("server group delete pair", form="")
    assert "pair" not in json.dumps(openstack("server group list"))


def test_quotas(openstack: Client, trio: Trio) -> None:
    """They are set and shown by project; a refusal has the numbers."""
    openstack("quota set --instances 0 --ram 2048 admin", form="")
    shown = {each["Resource"]: each["Limit"] for each in openstack("quota show --compute admin")}
    assert (0, 2048, -1) == tuple(shown[name] for name in ("instances", "ram", "cores"))
    assert "instances (1 requested, 0 of 0 used)" in openstack(f"{BOOT} web", status=1, form="")
    openstack("quota delete --compute admin", form="")
    assert "no projects" in trio.cli("quota", "list").stdout


def test_a_service_is_disabled(openstack: Client) -> None:
    openstack("compute service set --disable --disable-reason broken b3 nova-compute", form="")
    (shown,) = openstack("compute service list --host b3 --long")
    assert ("disabled", "broken") == (shown["Status"], shown["Disabled Reason"])
    openstack("compute service set --enable b3 nova-compute", form="")


_CREATE = """\
import openstack, sys
cloud = openstack.connection.Connection(auth_type="none", auth={"endpoint": sys.argv[1]})
server = cloud.create_server("sdk", image="cirros", flavor="tiny", wait=True, timeout=120)
print(server.status, [each["addr"] for each in server.addresses["lab"]])
"""


@pytest.mark.long
def test_addresses(openstack: Client, api: Api, trio: Trio) -> None:
    """A network is named, or the default one gives an address: the SDK deletes a server that gets none."""
    trio.cli("network", "create", "lab", "--bridge", "br0", "--subnet", "192.0.2.0/24", "--default")
    (listed,) = openstack("network list")
    assert ("lab", listed["ID"]) == (listed["Name"], openstack("network show lab")["id"])
    made = openstack("server create --flavor tiny --image cirros --network lab --wait plugged")
    assert {"lab": ["192.0.2.1"]} == made["addresses"]
    (port,) = openstack("port list --server plugged")
    assert [{"subnet_id": listed["ID"], "ip_address": "192.0.2.1"}] == port["Fixed IP Addresses"]
    assert ["plugged"] == [each["Name"] for each in openstack("server list --ip 192.0.2.1$")]
    python = [str(VENV / "bin/python"), "-I", "-c", _CREATE, f"{api.url}/v2.1"]
    done = subprocess.run(python, capture_output=True, text=True, timeout=180, check=False, env=environment())
    assert (0, "ACTIVE ['192.0.2.2']\n") == (done.returncode, done.stdout), done.stderr
    openstack("server delete --wait plugged sdk", form="")
    trio.cli("network", "delete", "lab")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (f"{BOOT} --key-name k web", "key pair k could not be found"),
        ("server create --flavor none --image cirros --nic none web", "none"),
        ("server pause web", "pause"),
    ],
)
def test_what_a_fleet_has_not(openstack: Client, line: str, said: str) -> None:
    """A sentence, and a failure."""
    if "pause" in line:
        openstack(f"{BOOT} web")
    answer = openstack(line, status=1, form="")
    assert said in answer.lower()
    assert "Traceback" not in answer
