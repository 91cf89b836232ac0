# SPDX-License-Identifier: Apache-2.0
"""Creates the volumes of a trace in a fleet and counts the results. ``fleet replay`` calls it."""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable, Sequence

from fleet import errors, volume_states
from fleet.client import faults, following
from fleet.client.calls import Calls
from fleet.client.connection import Record
from fleet.objects.answers.volumes import PoolView
from fleet.utilization import hours
from fleet_trial.replaying import volume_replay_report
from fleet_trial.replaying.pacing import Replay
from fleet_trial.replaying.volume_traces import VolumeTraceRequest


class VolumeRun(Replay[VolumeTraceRequest]):
    """One replay of volumes."""

    def __init__(self, conductor: Calls, concurrency: int, timeout_s: float) -> None:
        super().__init__(concurrency)
        self._conductor = conductor
        self._timeout_s = timeout_s
        self._outcomes: collections.Counter[str] = collections.Counter()
        self._reasons: collections.Counter[str] = collections.Counter()
        self._sizes: collections.Counter[str] = collections.Counter()
        self._lives: list[hours.Life] = []
        self._pools_before: Sequence[Record] = []
        self._results: list[volume_replay_report.Result] = []

    def replay(self, requests: Sequence[VolumeTraceRequest], on_done: Callable[[int], object]) -> None:
        self._pools_before = self._list_pools()
        super().replay(requests, on_done)

    def _list_pools(self) -> list[PoolView]:
        with self._conductor.plain_failures():
            return self._conductor.operator.list_pools()

    def send(self, number: int, request: VolumeTraceRequest) -> None:
        wanted = {"name": "replay", "size": request.size_gb, "volume_type": request.volume_type}
        with self._conductor.plain_failures():
            (accepted,) = self._conductor.create_volumes(wanted)["volumes"]
            self.accept([accepted["uuid"]])
            (volume,) = following.volumes(self._conductor, [accepted["uuid"]], self._timeout_s, _is_made)
        placed = volume["status"] == volume_states.AVAILABLE
        with self.lock:
            self._outcomes[volume["status"]] += 1
            self._lives.append(hours.Life(request.at_s, request.life_s, request.size_gb, placed))
            if placed or volume["status"] == volume_states.ERROR:
                where = volume["host"] if placed else None
                self._results.append(
                    volume_replay_report.Result(number, request.at_s, request.size_gb, where, request.life_s)
                )
            if placed:
                self.place(volume["uuid"], request, request.life_s)
            elif volume["status"] == volume_states.ERROR:
                self._reasons[faults.reason(volume["failure"])] += 1
                self._sizes[request.size] += 1
            elif volume["status"] == volume_states.DELETED:
                self.forget(volume["uuid"])

    def delete(self, uuids: set[str]) -> int:
        with self._conductor.plain_failures():
            for uuid in uuids:
                with contextlib.suppress(errors.NotFound):  # others have deleted it
                    self._conductor.operator.delete_volume(name=uuid)
            found = following.volumes(self._conductor, uuids, self._timeout_s, _is_gone)
        return sum(map(_is_gone, found))

    @property
    def deleted(self) -> int:
        """Volumes deleted by others while they were made, at the end of their lives, and at the end of the replay."""
        return self._outcomes[volume_states.DELETED] + self.gone

    def summary(self) -> dict[str, object]:
        pools = self._list_pools()
        placed, end_s = self._outcomes[volume_states.AVAILABLE], max((each.at_s for each in self._lives), default=0)
        return {
            "volumes": len(self.requests),
            "placed": placed,
            "refused": self._outcomes[volume_states.ERROR],
            "unfinished": self._outcomes[volume_states.CREATING],
            "deleted": self.deleted,
            "refused_by_reason": dict(self._reasons),
            "refused_by_size": dict(self._sizes.most_common()),
            **hours.figures("gb", self._lives, end_s),
            "pools": len(pools),
            "provisioned_gb": _share(pools),
            **volume_replay_report.figures(self._pools_before, self.requests, self._results),
            "duration_s": round(self.duration_s, 1),
            "volumes_per_s": round(placed / self.duration_s, 1) if self.duration_s else 0.0,
        }


def _is_made(volume: Record) -> bool:
    return volume["status"] != volume_states.CREATING


def _is_gone(volume: Record) -> bool:
    return volume["status"] == volume_states.DELETED


def _share(pools: Sequence[Record]) -> str:
    """Return the space that volumes claim, and its share of the capacity of pools that report one."""
    sized = [each for each in pools if each["total_capacity_gb"] is not None]
    provisioned = sum(each["provisioned_capacity_gb"] for each in sized)
    total = sum(each["total_capacity_gb"] for each in sized)
    return f"{provisioned:.0f} of {total:.0f} ({100 * provisioned / total if total else 0:.1f} %)"
