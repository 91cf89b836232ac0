# SPDX-License-Identifier: Apache-2.0
"""Computes this scheduler's own share of the hosts, by rendezvous hashing over the live schedulers.

Called by the modules beside it and those of :mod:`scheduler.peers`. Every scheduler has a score on every host; the
highest score owns the host. If a scheduler joins or dies, only the hosts that it owns change their owner. All
schedulers compute the same owners without a message. Among the worker processes of one scheduler service, which have
one service record, the hosts of the service are divided the same way. So are the hosts of a worker process among all
processes of its name, if several daemons have been given one name.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Sequence

import numpy

from scheduler.engine.hosts.inventory import Inventory
from scheduler.engine.hosts.table import OWN, Key

#: Odd factors of a common mixing function for 64-bit numbers (splitmix64).
_FACTORS = numpy.uint64(0xBF58476D1CE4E5B9), numpy.uint64(0x94D049BB133111EB)
_SHIFTS = numpy.uint64(30), numpy.uint64(27), numpy.uint64(31)


@dataclasses.dataclass(frozen=True)
class Schedulers:
    """The schedulers that divide the hosts, as one worker process sees them.

    :param services: the names of the live scheduler services, in order
    :param mine: the name of this process's service
    :param workers: the number of its worker processes
    :param number: this process's number among them, from 0
    :param incarnations: the live processes of this service and number, in order
    :param incarnation: this process
    """

    services: tuple[str, ...] = ()
    mine: str = ""
    workers: int = 1
    number: int = 0
    incarnations: tuple[str, ...] = ("",)
    incarnation: str = ""

    @property
    def alone(self) -> bool:
        return len(self.services) < 2 and self.workers < 2 and len(self.incarnations) < 2


class Shares:
    """Keeps the column ``own`` of the table true. Plain state without a lock."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._schedulers = Schedulers()

    @property
    def schedulers(self) -> Schedulers:
        return self._schedulers

    def show(self, row: int, key: Key) -> None:
        """Set the column for a new row."""
        if self._inventory.divided:
            self._inventory.table.note(row, OWN, bool(_owned([key[0]], self._schedulers)[0]))

    def follow(self, schedulers: Schedulers) -> None:
        """Divide the hosts anew if other schedulers are alive now."""
        if schedulers == self._schedulers:
            return
        self._schedulers = schedulers
        table = self._inventory.table
        self._inventory.divided = not schedulers.alone
        if self._inventory.divided and table.size:
            hosts = ["" if key is None else key[0] for key in table.keys]
            table.note_all(OWN, _owned(hosts, schedulers))


def _owned(hosts: Sequence[str], schedulers: Schedulers) -> numpy.ndarray:
    """Return the mask of the hosts that this worker owns."""
    hashes = _hashed(hosts)
    workers = [f"{schedulers.mine} {number}" for number in range(schedulers.workers)]
    of_service = _owners(hashes, schedulers.services) == schedulers.services.index(schedulers.mine)
    of_worker = of_service & (_owners(hashes, workers) == schedulers.number)
    mine = schedulers.incarnations.index(schedulers.incarnation)
    of_process: numpy.ndarray = of_worker & (_owners(hashes, schedulers.incarnations) == mine)
    return of_process


def _owners(hashes: numpy.ndarray, names: Sequence[str]) -> numpy.ndarray:
    """Return the position in ``names`` of the owner of each host."""
    scores = [_mixed(hashes ^ of_name) for of_name in _hashed(names)]
    found: numpy.ndarray = numpy.argmax(numpy.stack(scores), axis=0)
    return found


def _mixed(numbers: numpy.ndarray) -> numpy.ndarray:
    for shift, factor in zip(_SHIFTS, _FACTORS, strict=False):
        numbers = (numbers ^ (numbers >> shift)) * factor
    mixed: numpy.ndarray = numbers ^ (numbers >> _SHIFTS[-1])
    return mixed


def _hashed(names: Sequence[str]) -> numpy.ndarray:
    """Return a number for each name, the same in every process."""
    sums = (zlib.crc32(name.encode()) for name in names)
    return _mixed(numpy.fromiter(sums, dtype=numpy.uint64, count=len(names)))
