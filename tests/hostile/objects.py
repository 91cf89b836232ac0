# SPDX-License-Identifier: Apache-2.0
"""What two projects have: the same kinds of objects each, with secrets in every text that users choose."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from fleet_api.compute.services import service_id
from tests.hostile.people import BACKENDS, HOSTS, MEMBER, OWNER, Person
from tests.hostile.world import HostileWorld, context_of

_KEY = base64.b64encode(b"\0\0\0\x0bssh-ed25519\0\0\0\x20" + b"k" * 32).decode()
_SMALL = {"name": "small", "flavorid": "small", "vcpus": 1, "memory_mb": 64, "root_gb": 1}
_BIG = {**_SMALL, "name": "big", "flavorid": "big", "memory_mb": 128}
#: Only these two projects may use it.
_HIDDEN = {**_SMALL, "name": "hidden", "flavorid": "hidden", "is_public": False}
TOKENS = ("Umbra", "Lumen")


@dataclasses.dataclass(frozen=True)
class Objects:
    """Of one project, by kind: the uuid, or the name where there is none."""

    project: str
    ids: Mapping[str, str]
    #: What only the project may see: uuids, names, texts.
    secrets: frozenset[str]
    #: Where its objects are: no project may see that.
    hosts: frozenset[str]


def build(world: HostileWorld) -> tuple[Objects, Objects]:
    """Return ours and theirs."""
    admin = "client"
    for host in HOSTS:
        service = {"host": host, "binary": "fleet-compute", "topic": "compute", "incarnation": "one"}
        world.ask(host, "register_services", services=[service])
        report = {"host": host, "node": host, "vcpus": 64, "memory_mb": 65536, "local_gb": 1000}
        world.ask(host, "report_hosts", reports=[report], nodes={host: [host]})
    for backend in BACKENDS:
        service = {"host": backend, "binary": "fleet-volume", "topic": "volume", "incarnation": "one"}
        world.ask(backend, "register_services", services=[service])
        pool = {"host": backend, "pool": "pool", "capabilities": {"total_capacity_gb": 100, "free_capacity_gb": 100}}
        world.ask(backend, "report_pools", "volume", reports=[pool], pools={backend: ["pool"]})
    for host, binary in (*((each, "fleet-compute") for each in HOSTS), *((each, "fleet-volume") for each in BACKENDS)):
        world.ask(admin, "update_service", "operator", host=host, binary=binary, disabled=False)
    for flavor in (_SMALL, _BIG):
        world.ask(admin, "create_flavor", "operator", flavor={**flavor, "extra_specs": {"hw:cpu_policy": "shared"}})
    world.ask(admin, "create_flavor", "operator", flavor=_HIDDEN)
    for person in (MEMBER, OWNER):
        world.ask(admin, "add_flavor_access", "operator", name="hidden", project_id=str(person.project))
    fast = world.ask(
        admin, "create_volume_type", "operator", volume_type={"name": "fast", "extra_specs": {"tier": "1"}}
    )
    world.ask(admin, "create_volume_type", "operator", volume_type={"name": "hidden", "is_public": False})
    for person in (MEMBER, OWNER):
        world.ask(admin, "add_volume_type_access", "operator", name="hidden", project_id=str(person.project))
    world.ask(admin, "create_image", "operator", image={"name": "base", "location": "/images/base.raw"})
    (image,) = world.ask(admin, "list_images", "operator")
    aggregate = world.ask(admin, "create_aggregate", "operator", name="racks", metadata={"a": "b"})
    world.ask(admin, "add_aggregate_host", "operator", name="racks", host=HOSTS[0])
    shared = {
        "image": image["uuid"],
        "volume_type": str(fast["id"]),
        "aggregate": str(aggregate["id"]),
        "public_key": f"ssh-ed25519 {_KEY} new",
    }
    made = [
        _Maker(world, person, hosts, backend, token).make(shared)
        for person, hosts, backend, token in (
            (MEMBER, HOSTS[:1], BACKENDS[0], TOKENS[0]),
            (OWNER, HOSTS[1:], BACKENDS[1], TOKENS[1]),
        )
    ]
    world.ask(admin, "set_tolerance", "operator", tolerance={"kind": "fleet"})
    maintenance = {"name": "kernel", "waves": [[HOSTS[1]]]}
    world.ask(admin, "create_maintenance", "operator", maintenance=maintenance)
    # A recovery that has begun.
    world.ask(admin, "force_down", "operator", host=HOSTS[1], forced=True)
    world.ask(admin, "start_recovery", "operator", host=HOSTS[1])
    world.ask(admin, "force_down", "operator", host=HOSTS[1], forced=False)
    return made[0], made[1]


class _Maker:
    """:param token: is in each text that the project chooses"""

    def __init__(self, world: HostileWorld, person: Person, hosts: tuple[str, ...], backend: str, token: str) -> None:
        self._world, self._person, self._hosts, self._backend, self._token = world, person, hosts, backend, token

    def make(self, shared: Mapping[str, str]) -> Objects:
        """:param shared: what all projects have"""
        made, host = self._ids(), self._hosts[0]
        (node,) = self._world.ask("client", "show_host", "operator", name=host)["nodes"]
        hosts = {"host": host, "backend": self._backend, "service": service_id(host, "fleet-compute")}
        known = {**shared, **made, **hosts, "hypervisor": node["uuid"], "project": str(self._person.project)}
        places = frozenset((*self._hosts, self._backend.partition("@")[0]))
        secrets = frozenset((*made.values(), self._token))
        return Objects(str(self._person.project), {**known, "token": self._token}, secrets, places)

    @contextlib.contextmanager
    def _only_here(self, *hosts: str) -> Iterator[None]:
        """Other hosts and backends take nothing meanwhile."""
        others = [*((each, "fleet-compute") for each in HOSTS if each not in hosts)]
        others += [(each, "fleet-volume") for each in BACKENDS if each != self._backend]
        for disabled in (True, False):
            for host, binary in others:
                self._world.ask("client", "update_service", "operator", host=host, binary=binary, disabled=disabled)
            if disabled:
                yield

    def _ask(self, method: str, namespace: str = "operator", **given: Any) -> Any:
        context = context_of(self._person.project, self._person.name, False)
        return self._world.call("client", context, "conductor", namespace, method, given)

    def _text(self, what: str) -> str:
        return f"{self._token}-{what}"

    def _ids(self) -> dict[str, str]:
        host = self._hosts[0]
        with self._only_here(host):
            public_key = f"ssh-ed25519 {_KEY} {self._text('comment')}"
            self._ask("create_key_pair", key_pair={"name": self._text("key"), "public_key": public_key})
            network = self._network()
            group = self._ask("create_group", name=self._text("group"), policy="affinity")["uuid"]
            server, moving = self._server("server", host, group), self._server("moving", host)
            building = self._accepted("building")
            volume, attached = self._volume("volume"), self._volume("attached")
            said = {"metadata": {"note": self._text("metadata")}, "description": self._text("description")}
            snapshot = self._ask("create_snapshot", volume=volume, name=self._text("snapshot"), **said)["uuid"]
            self._done(snapshot)
            self._ask("attach_volume", name=server, volume=attached)
            (attachment,) = self._world.ask(host, "get_attachments", instance_uuid=server, host=host)
            done = {"attachment_uuid": attachment["uuid"], "status": "attaching", "attempt": attachment["attempt"]}
            self._world.ask(host, "attachment_done", host=host, **done)
        with self._only_here(self._hosts[-1]):
            self._ask("resize_instance", name=moving, flavor="big")
        (migration,) = self._ask("list_migrations")
        shown = self._ask("show_instance", name=server)
        request, (plug,) = shown["events"][0]["request_id"], shown["instance"]["interfaces"]
        return {
            "server": server,
            "moving": moving,
            "building": building,
            "volume": volume,
            "attached": attached,
            "snapshot": snapshot,
            "group": group,
            "network": network,
            "port": plug["uuid"],
            "key_pair": self._text("key"),
            "migration": migration["uuid"],
            "attachment": attachment["uuid"],
            "request": request,
        }

    def _network(self) -> str:
        """One that only the project may use."""
        number = TOKENS.index(self._token)
        network = {"name": self._text("network"), "bridge": f"br{number}", "subnet": f"10.{number}.0.0/24"}
        made = self._world.ask(
            "client", "create_network", "operator", network={**network, "projects": [self._person.project]}
        )
        return str(made["uuid"])

    def _accepted(self, what: str, group: str = "") -> str:
        request = {
            "flavor": "small",
            "name": self._text(what),
            "description": self._text("description"),
            "metadata": {"note": self._text("metadata")},
            "tags": [self._text("tag")],
            "key_name": self._text("key"),
            "user_data": base64.b64encode(self._text("data").encode()).decode(),
            "group": group,
            "networks": "auto",
        }
        (made,) = self._ask("create", "compute_task", request=request)["instances"]
        return str(made["uuid"])

    def _server(self, what: str, host: str, group: str = "") -> str:
        uuid = self._accepted(what, group)
        about = {"instance_uuid": uuid, "attempt": 1, "host": host, "incarnation": "one"}
        claim = {"memory_mb": 64, "disk_gb": 1, "vcpus": 1}
        self._world.ask(host, "claim_instance", **about, node=host, claim=claim)
        self._world.ask(host, "finish_build", **about, power_state=1)
        return uuid

    def _volume(self, what: str) -> str:
        request = {"size": 1, "name": self._text(what), "metadata": {"note": self._text("metadata")}}
        (made,) = self._ask("create_volumes", request=request)["volumes"]
        self._done(made["uuid"])
        return str(made["uuid"])

    def _done(self, uuid: str) -> None:
        done = {"volume_uuid": uuid, "attempt": 1, "host": self._backend, "status": "creating"}
        self._world.ask(self._backend, "volume_done", "volume", **done)
