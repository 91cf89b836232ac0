# SPDX-License-Identifier: Apache-2.0
"""Fills a trial fleet over HTTP: projects, flavors, groups, labels, volumes, builds that fail and builds that wait."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import requests

FLAVORS = (("small", 1, 2048, 10), ("medium", 2, 4096, 20), ("large", 4, 8192, 40), ("huge", 8, 16384, 80))
#: Project, name, flavor, count, group and label.
SERVERS = (
    ("shop", "web", "small", 6, "web", {"tier": "front"}),
    ("shop", "cart", "medium", 3, "", {"tier": "front"}),
    ("shop", "db", "large", 2, "databases", {"tier": "data"}),
    ("lab", "runner", "medium", 5, "", {"tier": "batch"}),
    ("lab", "gpu-train", "large", 2, "", {"tier": "batch"}),
    ("ops", "monitor", "small", 2, "", {}),
    ("ops", "build", "huge", 1, "", {"tier": "batch"}),
)
_GROUPS = (("web", "anti-affinity", "shop"), ("databases", "anti-affinity", "shop"))
_TIMEOUT_S = 60
#: How long ago the fleet began, and hours between two requests.
_BEGAN = "-30 hours"
_APART_H = 2


class PicturedFleet:
    """:param user: the administrator's name and password"""

    def __init__(self, url: str, user: tuple[str, str]) -> None:
        self.url = url
        self._user = user

    def ask(self, call: str, project: str = "ops", /, **arguments: Any) -> Any:
        body = {"arguments": arguments, "project_id": project, "user_id": "root"}
        answer = requests.post(f"{self.url}/fleet/v1/calls/{call}", json=body, auth=self._user, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()["result"]

    def fill(self) -> None:
        """Make everything. It is there when builds have ended; see :meth:`is_settled`."""
        for name, vcpus, memory_mb, root_gb in FLAVORS:
            flavor = {"name": name, "vcpus": vcpus, "memory_mb": memory_mb, "root_gb": root_gb}
            self.ask("operator/create_flavor", flavor=flavor)
        for name, policy, project in _GROUPS:
            self.ask("operator/create_group", project, name=name, policy=policy)
        limits = {"instances": 20, "cores": 40, "ram": 65536, "local_gb": 400, "volumes": 10, "gigabytes": 500}
        self.ask("operator/set_quota", project_id="shop", limits=limits)
        for project, name, flavor_name, count, group, labels in SERVERS:
            request = {"name": name, "flavor": flavor_name, "count": count, "metadata": labels}
            self.ask("compute_task/create", project, request={**request, **({"group": group} if group else {})})
        for name, size in (("data", 40), ("logs", 10), ("scratch", 5)):
            self.ask("operator/create_volumes", "shop", request={"name": name, "size": size})
        too_large = {"vcpus": 1, "memory_mb": 1_000_000, "root_gb": 1}
        self.ask("compute_task/create", "lab", request={"name": "too-large", "flavor": too_large})
        foreign = {"name": "far", "flavor": "small", "image": {"properties": {"hw_architecture": "s390x"}}}
        self.ask("compute_task/create", "shop", request=foreign)
        # Each takes most of a host, so some of them wait.
        full = {"vcpus": 4, "memory_mb": 30 * 1024, "root_gb": 20, "name": "render"}
        for number in range(1, 7):
            wait = {"name": f"render-{number}", "wait_for_capacity_s": 3600}
            self.ask("compute_task/create", "lab", request={"flavor": full, **wait})

    def is_settled(self) -> bool:
        """Return True if nothing is under way."""
        found = self.ask("operator/search_instances", limit=1000)["instances"]
        busy = [each for each in found if each["task_state"] not in (None, "queued")]
        volumes = self.ask("operator/search_volumes", limit=1000)["volumes"]
        return not busy and not [each for each in volumes if each["step"]]

    def finish(self) -> None:
        """Do what needs instances that run."""
        self.ask("operator/stop_instance", "ops", name=self.uuid("monitor-2"))
        self.ask(
            "operator/create_aggregate", name="row-b", metadata={"availability_zone": "row-b", "balance": "confirm"}
        )
        for host in ("host5", "host6"):
            self.ask("operator/add_aggregate_host", name="row-b", host=host)
        reason = "new disk on Tuesday"
        self.ask("operator/update_service", host="host6", binary="fleet-compute", disabled=True, reason=reason)

    def uuid(self, name: str) -> str:
        """Return that of an instance."""
        found = self.ask("operator/search_instances", text=name)["instances"]
        return next(str(each["uuid"]) for each in found if each["name"] == name)


def age(database: pathlib.Path) -> None:
    """Let the fleet be older than it is, with a request every two hours: use over time then has something to show."""
    with contextlib.closing(sqlite3.connect(database, timeout=_TIMEOUT_S)) as connection, connection:
        began = "strftime('%Y-%m-%d %H:%M:%f000', 'now', ?)"
        connection.execute(f"UPDATE services SET created_at = {began}", (_BEGAN,))
        # What waits is left as it is: the time for which it may wait counts from its request.
        ended = "SELECT reservation_id FROM instances WHERE vm_state != 'building'"
        made = f"SELECT reservation_id FROM build_requests WHERE reservation_id IN ({ended})"
        requests_made = connection.execute(f"{made} ORDER BY created_at, reservation_id").fetchall()
        for number, (reservation,) in enumerate(requests_made):
            shift = f"-{_APART_H * (len(requests_made) - number)} hours"
            those = "SELECT uuid FROM instances WHERE reservation_id = ?"
            connection.execute(
                f"UPDATE instances SET launched_at = {began} WHERE launched_at IS NOT NULL AND uuid IN ({those})",
                (shift, reservation),
            )
            connection.execute(
                f"UPDATE instances SET created_at = {began} WHERE uuid IN ({those})", (shift, reservation)
            )
            for table in ("instance_events", "instance_faults"):
                connection.execute(
                    f"UPDATE {table} SET created_at = {began} WHERE instance_uuid IN ({those})", (shift, reservation)
                )
