# SPDX-License-Identifier: Apache-2.0
"""Conditions of a cloud that a scenario needs: each is a context, and the cloud is as before when it ends."""

from __future__ import annotations

import contextlib
import os
import signal
import urllib.error
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.nova.cloud import Cloud, eventually

_OWNER = {"project_id": "others", "user_id": "others"}


@contextlib.contextmanager
def filled(cloud: Cloud, *hosts: str, **amounts: int) -> Iterator[None]:
    """Allocations of consumers that nova does not know: these amounts, by resource class, on each of the hosts."""
    consumers = []
    for host in hosts:
        consumers.append(str(uuid.uuid4()))
        allocations = {provider(cloud, host): {"resources": amounts}}
        body = {"allocations": allocations, "consumer_generation": None, **_OWNER}
        _persist(lambda body=body, consumer=consumers[-1]: cloud.placement("PUT", f"/allocations/{consumer}", body))
    yield
    for consumer in consumers:
        _persist(lambda consumer=consumer: cloud.placement("DELETE", f"/allocations/{consumer}"))


@contextlib.contextmanager
def without_provider(cloud: Cloud, host: str) -> Iterator[None]:
    """The resource provider of a host is deleted, while its compute service counts as up."""
    name = provider(cloud, host)
    path = f"/resource_providers/{name}"
    inventories = cloud.placement("GET", f"{path}/inventories")["inventories"]
    traits = cloud.placement("GET", f"{path}/traits")["traits"]
    # A compute service would make it anew within seconds.
    os.kill(cloud.pid(host), signal.SIGSTOP)
    try:
        cloud.placement("DELETE", path)
        yield
        cloud.placement("POST", "/resource_providers", {"uuid": name, "name": host})
        _change(cloud, name, "inventories", lambda found: {**found, "inventories": inventories})
        _change(cloud, name, "traits", lambda found: {**found, "traits": traits})
    finally:
        os.kill(cloud.pid(host), signal.SIGCONT)


@contextlib.contextmanager
def ratio(cloud: Cloud, host: str, resource_class: str, value: float) -> Iterator[float]:
    """An operator has set an allocation ratio in placement. Yield what it was."""
    name = provider(cloud, host)
    found = cloud.placement("GET", f"/resource_providers/{name}/inventories")["inventories"]
    before = found[resource_class]["allocation_ratio"]
    _set_ratio(cloud, name, resource_class, value)
    yield before
    _set_ratio(cloud, name, resource_class, before)


def _set_ratio(cloud: Cloud, name: str, resource_class: str, value: float) -> None:
    def changed(found: Any) -> Any:
        inventories = found["inventories"]
        inventories[resource_class]["allocation_ratio"] = value
        return {**found, "inventories": inventories}

    _change(cloud, name, "inventories", changed)


@contextlib.contextmanager
def trait(cloud: Cloud, name: str, *hosts: str) -> Iterator[None]:
    """The hosts have a trait of the operator's own. It stays known to placement."""

    def given(found: Any) -> Any:
        return {**found, "traits": [*found["traits"], name]}

    def taken(found: Any) -> Any:
        return {**found, "traits": [each for each in found["traits"] if each != name]}

    cloud.placement("PUT", f"/traits/{name}")
    for host in hosts:
        _change(cloud, provider(cloud, host), "traits", given)
    yield
    for host in hosts:
        _change(cloud, provider(cloud, host), "traits", taken)


@contextlib.contextmanager
def nested(cloud: Cloud, host: str, **totals: int) -> Iterator[None]:
    """A nested provider of a host for each name: one unit of CUSTOM_GOLD or more, by name of the provider."""
    cloud.placement("PUT", "/resource_classes/CUSTOM_GOLD")
    made = []
    for name, total in totals.items():
        made.append(str(uuid.uuid4()))
        parent = {"uuid": made[-1], "name": name, "parent_provider_uuid": provider(cloud, host)}
        cloud.placement("POST", "/resource_providers", parent)
        _give(cloud, made[-1], "CUSTOM_GOLD", total)
    yield
    _delete(cloud, made)


@contextlib.contextmanager
def shared_disk(cloud: Cloud, total_gb: int, *hosts: str) -> Iterator[None]:
    """A provider shares its disk with the hosts, by an aggregate."""
    aggregate, name = str(uuid.uuid4()), str(uuid.uuid4())
    cloud.placement("POST", "/resource_providers", {"uuid": name, "name": "shared-disk"})
    _give(cloud, name, "DISK_GB", total_gb)
    _change(cloud, name, "traits", lambda found: {**found, "traits": ["MISC_SHARES_VIA_AGGREGATE"]})
    members = [name, *(provider(cloud, host) for host in hosts)]
    for member in members:
        _change(cloud, member, "aggregates", lambda found: {**found, "aggregates": [*found["aggregates"], aggregate]})
    yield
    for member in members:
        _change(
            cloud,
            member,
            "aggregates",
            lambda found: {**found, "aggregates": [each for each in found["aggregates"] if each != aggregate]},
        )
    _delete(cloud, [name])


@contextlib.contextmanager
def aggregate(cloud: Cloud, metadata: Mapping[str, str], *hosts: str) -> Iterator[None]:
    """An aggregate of hosts with metadata. nova-api copies its members to placement."""
    name = f"aggregate-{uuid.uuid4()}"
    number = cloud.api("POST", "/os-aggregates", {"aggregate": {"name": name}})["aggregate"]["id"]
    path = f"/os-aggregates/{number}"
    for host in hosts:
        cloud.api("POST", f"{path}/action", {"add_host": {"host": host}})
    cloud.api("POST", f"{path}/action", {"set_metadata": {"metadata": dict(metadata)}})
    yield
    for host in hosts:
        cloud.api("POST", f"{path}/action", {"remove_host": {"host": host}})
    cloud.api("DELETE", path)


@contextlib.contextmanager
def flavor(cloud: Cloud, vcpus: int = 1, **specs: str) -> Iterator[str]:
    """A flavor of 64 MB and 1 GB with extra specs. In a name, ``__`` stands for the colon. Yield its id."""
    made = {"name": f"flavor-{uuid.uuid4()}", "id": str(uuid.uuid4()), "ram": 64, "vcpus": vcpus, "disk": 1}
    cloud.api("POST", "/flavors", {"flavor": made})
    named = {name.replace("__", ":"): value for name, value in specs.items()}
    if named:
        cloud.api("POST", f"/flavors/{made['id']}/os-extra_specs", {"extra_specs": named})
    yield made["id"]
    cloud.api("DELETE", f"/flavors/{made['id']}")


@contextlib.contextmanager
def disabled(cloud: Cloud, host: str) -> Iterator[None]:
    """The compute service of a host is disabled."""
    (service,) = cloud.api("GET", f"/os-services?host={host}&binary=nova-compute")["services"]
    path = f"/os-services/{service['id']}"
    cloud.api("PUT", path, {"status": "disabled"})
    has = "COMPUTE_STATUS_DISABLED"
    traits = f"/resource_providers/{provider(cloud, host)}/traits"
    eventually(lambda: has in cloud.placement("GET", traits)["traits"])
    yield
    cloud.api("PUT", path, {"status": "enabled"})
    eventually(lambda: has not in cloud.placement("GET", traits)["traits"])


def provider(cloud: Cloud, host: str) -> str:
    """Return the uuid of a host's resource provider."""
    return next(each["uuid"] for each in cloud.providers() if each["name"] == host)


def _give(cloud: Cloud, name: str, resource_class: str, total: int) -> None:
    _change(cloud, name, "inventories", lambda found: {**found, "inventories": {resource_class: {"total": total}}})


def _change(cloud: Cloud, name: str, what: str, changed: Callable[[Any], Any]) -> None:
    """Replace one part of a provider, again if a compute service has changed the provider meanwhile."""
    path = f"/resource_providers/{name}/{what}"
    _persist(lambda: cloud.placement("PUT", path, changed(cloud.placement("GET", path))))


def _delete(cloud: Cloud, providers: list[str]) -> None:
    cloud.delete_all()
    eventually(lambda: not any(set(providers) & held.keys() for held in cloud.held().values()))
    for name in providers:
        cloud.placement("DELETE", f"/resource_providers/{name}")


def _persist(work: Callable[[], object]) -> None:
    def is_done() -> bool:
        try:
            work()
        except urllib.error.HTTPError as refusal:
            if refusal.code == 409:
                return False
            raise AssertionError(f"{refusal.code}: {refusal.read()[:500]!r}") from None
        return True

    eventually(is_done, 30)
