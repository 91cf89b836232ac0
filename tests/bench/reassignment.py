# SPDX-License-Identifier: Apache-2.0
"""The planner's search on instances of the ROADEF/EURO challenge 2012 (machine reassignment), from a folder of the user.

``FLEET_ROADEF`` names the folder: ``model_NAME.txt`` and ``assignment_NAME.txt`` for each instance, in the format of the
challenge. ``FLEET_ROADEF_ONLY`` names some instances, ``FLEET_ROADEF_SECONDS`` is the time for each (300), with reading it:
processor time, so that other work of the machine does not count. Two processes with seeds 1 and 2 search; the better result
counts, and is priced once more, in whole numbers, by the challenge's rules. ``FLEET_ROADEF_ANSWERS`` names a folder for the
assignments that were found, for an evaluator of your own.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import time
from pathlib import Path

import numpy

from scheduler.planning.search.annealing import anneal
from scheduler.planning.search.problem import Groups, MoveCosts, Problem, Terms
from tests.bench import figures

_SEEDS = (1, 2)
#: The best of the challenge's first team in 300 s, from its own table.
_PUBLISHED = {
    "a1_1": 44_306_501,
    "a1_2": 777_912_030,
    "a1_3": 583_006_422,
    "a1_4": 262_125_116,
    "a1_5": 727_578_310,
    "a2_1": 329,
    "a2_2": 746_097_632,
    "a2_3": 1_210_644_572,
    "a2_4": 1_680_615_349,
    "a2_5": 318_358_949,
}


def run() -> None:
    folder = os.environ.get("FLEET_ROADEF")
    if not folder:
        figures.report("reassignment", skipped="set FLEET_ROADEF to a folder with instances")
        return
    only = os.environ.get("FLEET_ROADEF_ONLY", "").split()
    seconds = float(os.environ.get("FLEET_ROADEF_SECONDS", "300"))
    for model in sorted(Path(folder).glob("model_*.txt")):
        name = model.stem.removeprefix("model_")
        if only and name not in only:
            continue
        began = time.monotonic()
        with concurrent.futures.ProcessPoolExecutor(len(_SEEDS)) as pool:
            arguments = [str(folder)] * 2, [name] * 2, _SEEDS, [seconds] * 2
            found = list(pool.map(_searched, *arguments))
        took_s = time.monotonic() - began
        best, _steps, at = min(found, key=lambda each: each[0])
        if answers := os.environ.get("FLEET_ROADEF_ANSWERS"):
            (Path(answers) / f"assignment_{name}.txt").write_text(" ".join(map(str, at.tolist())) + "\n")
        published = _PUBLISHED.get(name)
        gap = (
            {}
            if published is None
            else {"published": published, "above_percent": round(100 * (best / published - 1), 2)}
        )
        bound = int(_read(Path(folder), name).bound())
        figures.report(
            "reassignment",
            instance=name,
            cost=best,
            **gap,
            bound=bound,
            of_seeds=[cost for cost, _steps, _at in found],
            steps=[steps for _cost, steps, _at in found],
            seconds=round(took_s),
        )


def _searched(folder: str, name: str, seed: int, seconds: float) -> tuple[int, int, numpy.ndarray]:
    until = time.process_time() + seconds
    instance = _read(Path(folder), name)
    found = anneal(instance.problem(seed), until, seed, clock=time.process_time)
    at = instance.unshuffled(found.at, seed)
    return instance.price(at), found.steps, at


@dataclasses.dataclass(frozen=True)
class _Instance:
    """In the challenge's own numbers."""

    transient: numpy.ndarray
    load_weight: numpy.ndarray
    hood: numpy.ndarray
    location: numpy.ndarray
    capacity: numpy.ndarray
    safety: numpy.ndarray
    distance: numpy.ndarray
    spread: numpy.ndarray
    depends: list[list[int]]
    service: numpy.ndarray
    need: numpy.ndarray
    move_cost: numpy.ndarray
    balance: list[tuple[int, int, int, int]]
    weights: tuple[int, int, int]
    start: numpy.ndarray

    def bound(self) -> float:
        return self._terms().bound(self.need.sum(axis=0))

    def _terms(self) -> Terms:
        resources = len(self.load_weight)
        slope = [numpy.eye(resources)[:, number] for number in range(resources)]
        offset = [-self.safety[:, number] for number in range(resources)]
        weight = [float(each) for each in self.load_weight]
        for one, two, target, cost in self.balance:
            slope.append(numpy.eye(resources)[:, two] - target * numpy.eye(resources)[:, one])
            offset.append(target * self.capacity[:, one] - self.capacity[:, two])
            weight.append(float(cost))
        keep = [number for number, each in enumerate(weight) if each]
        return Terms(
            numpy.stack([offset[each] for each in keep], axis=1).astype(float),
            numpy.stack([slope[each] for each in keep], axis=1),
            numpy.array([weight[each] for each in keep]),
        )

    def _order(self, seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Return random orders of machines and processes, as the search looks at windows of them."""
        chance = numpy.random.default_rng(seed)
        return chance.permutation(len(self.capacity)), chance.permutation(len(self.need))

    def problem(self, seed: int) -> Problem:
        of_process, of_service, of_machine = self.weights
        machines, processes = self._order(seed)
        number_of = numpy.argsort(machines)
        terms = self._terms()
        count = len(machines)
        return Problem(
            need=self.need[processes],
            capacity=self.capacity[machines],
            start=number_of[self.start[processes]],
            transient=self.transient,
            terms=dataclasses.replace(terms, offset=terms.offset[machines]),
            moves=MoveCosts(
                of_process * self.move_cost[processes],
                (of_machine * self.distance)[numpy.ix_(machines, machines)].astype(numpy.float32),
                of_service,
            ),
            groups=Groups(
                numpy.ones(len(self.spread), dtype=int),
                self.spread,
                self.depends,
                self.location[machines],
                self.hood[machines],
            ),
            group_of=self.service[processes],
            fits=numpy.ones((1, count), dtype=bool),
            shape_of=numpy.zeros(len(processes), dtype=int),
        )

    def unshuffled(self, at: numpy.ndarray, seed: int) -> numpy.ndarray:
        machines, processes = self._order(seed)
        found = numpy.empty_like(at)
        found[processes] = machines[at]
        return found

    def price(self, at: numpy.ndarray) -> int:
        """Return the cost by the challenge's rules, in whole numbers. :raises AssertionError: a rule is broken"""
        use, left = numpy.zeros_like(self.capacity), at != self.start
        numpy.add.at(use, at, self.need)
        stays = numpy.zeros_like(use)
        numpy.add.at(stays, self.start[left], numpy.where(self.transient, self.need, 0)[left])
        assert (use + stays <= self.capacity).all(), "capacity"
        pairs = set(zip(self.service.tolist(), at.tolist(), strict=True))
        assert len(pairs) == len(at), "conflict"
        locations, hoods = [set() for _ in self.spread], [set() for _ in self.spread]  # type: ignore[var-annotated]
        for service, machine in pairs:
            locations[service].add(int(self.location[machine]))
            hoods[service].add(int(self.hood[machine]))
        assert all(len(each) >= least for each, least in zip(locations, self.spread.tolist(), strict=True)), "spread"
        assert all(hoods[each] <= hoods[on] for each, of in enumerate(self.depends) for on in of), "dependency"
        cost = int((self.load_weight * numpy.maximum(0, use - self.safety)).sum())
        spare = self.capacity - use
        for one, two, target, weight in self.balance:
            cost += weight * int(numpy.maximum(0, target * spare[:, one] - spare[:, two]).sum())
        of_process, of_service, of_machine = self.weights
        cost += of_process * int(self.move_cost[left].sum())
        cost += of_service * int(numpy.bincount(self.service[left], minlength=1).max())
        return cost + of_machine * int(self.distance[self.start[left], at[left]].sum())


class _Numbers:
    """The numbers of a file, one after the other: 25 million, if it has the distances of 5,000 machines."""

    def __init__(self, path: Path) -> None:
        self._all = numpy.fromstring(path.read_text(), dtype=numpy.int64, sep=" ")
        self._at = 0

    def one(self) -> int:
        return int(self.many(1)[0])

    def many(self, count: int) -> numpy.ndarray:
        self._at += count
        return self._all[self._at - count : self._at]

    def listed(self, *counts: int) -> list[numpy.ndarray]:
        """Return so many numbers, for each of the counts."""
        return [self.many(count) for count in counts]


def _read(folder: Path, name: str) -> _Instance:
    numbers = _Numbers(folder / f"model_{name}.txt")
    one, many = numbers.one, numbers.many
    resources = many(2 * one()).reshape(-1, 2)
    count, width = one(), len(resources)
    machines = [numbers.listed(1, 1, width, width, count) for _ in range(count)]
    services = [(one(), many(one()).tolist()) for _ in range(one())]
    processes = [numbers.listed(1, width, 1) for _ in range(one())]
    balance = [tuple(many(4).tolist()) for _ in range(one())]
    hood, location, capacity, safety, distance = (numpy.stack(each) for each in zip(*machines, strict=True))
    service, need, move_cost = (numpy.stack(each) for each in zip(*processes, strict=True))
    return _Instance(
        *(resources[:, 0].astype(bool), resources[:, 1].copy()),
        *(hood.ravel(), location.ravel(), capacity, safety, distance),
        *(numpy.array([each[0] for each in services]), [each[1] for each in services]),
        *(service.ravel(), need, move_cost.ravel()),
        balance,  # type: ignore[arg-type]
        (one(), one(), one()),
        _Numbers(folder / f"assignment_{name}.txt").many(len(need)),
    )
