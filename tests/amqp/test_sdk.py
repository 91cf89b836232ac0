# SPDX-License-Identifier: Apache-2.0
"""openstacksdk as it is installed from the package registry: what its users do, and Ansible's modules where installed.

``sdk_checks`` has the checks.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
from collections.abc import Iterator

import pytest

from tests.amqp.daemons import Trio, delete_service, eventually
from tests.amqp.openstack_client import VENV, environment
from tests.amqp.test_api import Api, api

__all__ = ["api"]

#: A program that lost its checks would find nothing.
LEAST = 45
_POOLS = """\
[DEFAULT]
host = sdk
enabled_backends = first,second
volume_state_path = {directory}/state
backend_stats_polling_interval = 3
[first]
volume_driver = fake
fake_pools = a:100
[second]
volume_driver = fake
fake_pools = b:100
"""


@pytest.fixture(scope="module")
def cloud(api: Api, trio: Trio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a fleet with two flavors, an image, a network and two storage pools."""
    directory = tmp_path_factory.mktemp("sdk")
    config = directory / "volume.conf"
    config.write_text(_POOLS.format(directory=directory))
    trio.cli("image", "create", "cirros", "--location", "/images/cirros.raw")
    for name, memory_mb in (("tiny", 512), ("double", 1024)):
        trio.cli("flavor", "create", name, "--vcpus", "1", "--memory-mb", str(memory_mb), "--root-gb", "1")
    trio.cli("network", "create", "lab", "--bridge", "br0", "--subnet", "192.0.2.0/24", "--default")
    trio.start("pools", "fleet-volume", "--config-file", str(config))
    eventually(lambda: ["up"] * 2 == [each["state"] for each in trio.operator("list_pools")])
    yield api.url
    trio.stop("pools")
    for backend in ("first", "second"):
        delete_service(trio, f"sdk@{backend}", "fleet-volume")
    trio.cli("network", "delete", "lab")
    for name in ("tiny", "double"):
        trio.cli("flavor", "delete", name)
    trio.cli("image", "delete", "cirros")


@pytest.mark.long
def test_what_users_of_the_sdk_do(cloud: str) -> None:
    if not (VENV / "bin/openstack").exists():
        pytest.skip(f"the openstack client is not installed in {VENV}: make client")
    program = pathlib.Path(__file__).with_name("sdk_checks.py")
    command = [str(VENV / "bin/python"), "-I", str(program), cloud]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment())
    found = dict(line.split("\t", 1) for line in done.stdout.splitlines())
    failed = {name: said for name, said in found.items() if said != "ok"}
    assert (0, {}) == (done.returncode, failed), done.stderr
    assert LEAST <= len(found)


@pytest.mark.skipif(not (VENV / "bin/ansible-playbook").exists(), reason="no Ansible beside the openstack client")
def test_ansible_makes_changes_and_destroys_a_server(cloud: str, tmp_path: pathlib.Path) -> None:
    """What is as it should be is not changed. The collection openstack.cloud comes with the package ``ansible``."""
    of = {"auth_type": "none", "auth": {"endpoint": f"{cloud}/v2.1"}, "name": "ansible"}
    web = {**of, "image": "cirros", "flavor": "tiny", "network": "lab", "auto_ip": False, "security_groups": []}
    changed = {**web, "meta": {"tier": "one"}, "description": "changed"}
    steps = [
        ("server", web, "not it.failed and it.changed and it.server.status == 'ACTIVE'"),
        ("server", web, "not it.changed"),
        ("server", changed, "it.changed and it.server.metadata.tier == 'one' and it.server.description == 'changed'"),
        ("server_action", {**of, "action": "stop"}, "it.changed"),
        ("server_action", {**of, "action": "start"}, "it.changed"),
        ("server_info", of, "it.servers | length == 1"),
        ("server", {**of, "state": "absent"}, "it.changed"),
        ("server", {**of, "state": "absent"}, "not it.changed"),
    ]
    tasks = [
        task
        for module, arguments, that in steps
        for task in ({f"openstack.cloud.{module}": arguments, "register": "it"}, {"assert": {"that": [that]}})
    ]
    play = [{"hosts": "localhost", "connection": "local", "gather_facts": False, "tasks": tasks}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    command = [str(VENV / "bin/ansible-playbook"), "-i", "localhost,", str(tmp_path / "play.yml")]
    command += ["-e", f"ansible_python_interpreter={VENV}/bin/python"]
    variables = {**environment(), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=variables)
    assert 0 == done.returncode, done.stdout + done.stderr
