# SPDX-License-Identifier: Apache-2.0
"""A cloud for Tempest: private servers, a real keystone, and the daemons with the fake drivers."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Iterator

import requests

from fleet_trial import private_servers
from fleet_trial.private_servers.process import free_ports
from tests.amqp.daemons import Trio, eventually, running
from tests.tempest import identity
from tests.tempest.identity import Keystone

HOSTS = 4
#: Filters whose names Tempest knows, beside those that every fleet has by default.
FILTERS = ("ComputeFilter", "SameHostFilter", "DifferentHostFilter")
GROUPS = ("ServerGroupAntiAffinityFilter", "ServerGroupAffinityFilter")
BACKENDS = ("first", "second")
_DEFAULT = f"""\
rpc_response_timeout = 60
scheduler_default_filters = RetryFilter,AvailabilityZoneFilter,RamFilter,CoreFilter,DiskFilter,{",".join(FILTERS + GROUPS)}
"""
_VOLUMES = """\
[DEFAULT]
host = disks
enabled_backends = first,second
volume_state_path = {directory}/volumes
backend_stats_polling_interval = 3
[first]
volume_driver = fake
volume_backend_name = first
fake_pools = a:500
[second]
volume_driver = fake
volume_backend_name = second
fake_pools = b:500
"""
_API = """\
[api]
port = {port}
auth_strategy = keystone
threads = 16
connections_per_address = 1000
[keystone_authtoken]
auth_type = password
auth_url = {keystone}
www_authenticate_uri = {keystone}
service_token_roles_required = true
username = {user}
password = {password}
project_name = {project}
user_domain_name = Default
project_domain_name = Default
"""


@dataclasses.dataclass(frozen=True)
class Cloud:
    """``url`` is that of fleet-api. ``images`` and ``flavors`` have two ids each; the second flavor is the larger one."""

    url: str
    keystone: Keystone
    trio: Trio
    images: tuple[str, str]
    flavors: tuple[str, str]


@contextlib.contextmanager
def cloud(venv: pathlib.Path, directory: pathlib.Path) -> Iterator[Cloud]:
    """Start everything from nothing, and end it. :param directory: of the daemons' files

    :raises private_servers.ServerMissing:
    """
    with (
        private_servers.rabbitmq() as broker,
        private_servers.postgresql_server() as databases,
        _identity(venv, databases, directory / "keystone.log") as keystone,
        running(Trio(directory, broker, databases.url(), default=_DEFAULT)) as trio,
    ):
        url = _started(trio, keystone)
        for kind, path in (("compute", "/v2.1"), ("block-storage", "/volume/v3"), ("image", ""), ("network", "")):
            keystone.register(kind, f"{url}{path}")
        images = tuple(_image(trio, name) for name in ("first", "second"))
        flavors = _flavor(trio, "small", 128), _flavor(trio, "medium", 256)
        yield Cloud(url, keystone, trio, (images[0], images[1]), flavors)


def _identity(
    venv: pathlib.Path, databases: private_servers.PostgreSQL, log: pathlib.Path
) -> contextlib.AbstractContextManager[Keystone]:
    databases.execute("CREATE DATABASE keystone")
    return identity.keystone(venv, databases.url("keystone"), log)


def _started(trio: Trio, keystone: Keystone) -> str:
    """Start the daemons; return the URL of fleet-api."""
    (port,) = free_ports(1)
    volumes = _VOLUMES.format(directory=trio.directory)
    api = _API.format(
        port=port,
        keystone=keystone.url,
        user=identity.SERVICE_USER,
        password=identity.SERVICE_PASSWORD,
        project=identity.SERVICE_PROJECT,
    )
    trio.manage("db", "sync")
    trio.start("conductor", "fleet-conductor")
    trio.start("scheduler", "fleet-scheduler")
    trio.start("agents", "fleet-compute", "--hosts", f"host[1-{HOSTS}]")
    trio.start("disks", "fleet-volume", "--config-file", _file(trio, "volumes.conf", volumes))
    trio.start("api", "fleet-api", "--config-file", _file(trio, "api.conf", api))
    url = f"http://127.0.0.1:{port}"
    trio.wait_for_hosts(HOSTS)
    trio.wait_for_service("fleet-scheduler")
    eventually(lambda: len([each for each in trio.operator("list_pools") if each["state"] == "up"]) == len(BACKENDS))
    eventually(lambda: requests.get(url, timeout=5).ok, retry_on=OSError)
    return url


def _file(trio: Trio, name: str, text: str) -> str:
    path = trio.directory / name
    path.write_text(text)
    path.chmod(0o600)
    return str(path)


def _image(trio: Trio, name: str) -> str:
    made = trio.operator("create_image", image={"name": name, "location": f"/images/{name}.raw", "disk_format": "raw"})
    return str(made["uuid"])


def _flavor(trio: Trio, name: str, memory_mb: int) -> str:
    flavor = {"name": name, "flavorid": name, "vcpus": 1, "memory_mb": memory_mb, "root_gb": 1}
    return str(trio.operator("create_flavor", flavor=flavor)["flavorid"])
