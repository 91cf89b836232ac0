# SPDX-License-Identifier: Apache-2.0
"""Reads traces of volumes: one line for each volume, ``SECONDS GIB [TYPE [LIFETIME]]``, in the order of their times.

TYPE is the name of a volume type, and LIFETIME seconds; ``-`` or nothing stands for none, and for a volume without an
end. Lines that begin with ``#`` tell the source of a trace. Called by :mod:`fleet_trial.replaying.volume_replay` and
:mod:`fleet_cli.planning.replay`.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator

from fleet.objects.volume import LARGEST_GB, size_of
from fleet_trial.replaying import traces

#: A small, made-up trace that comes with the program.
SAMPLE = traces.SAMPLE.with_name("volumes.txt")
_NONE = "-"


@dataclasses.dataclass(frozen=True)
class VolumeTraceRequest:
    """A volume, requested at ``at_s``. A lifetime of None has no end."""

    at_s: int
    size_gb: int
    volume_type: str | None = None
    life_s: float | None = None

    @property
    def lifetimes_s(self) -> tuple[float | None, ...]:
        return (self.life_s,)

    @property
    def size(self) -> str:
        return size_of(self.size_gb, self.volume_type)


def read_requests(path: pathlib.Path) -> Iterator[VolumeTraceRequest]:
    """Return the requests in order.

    :raises traces.BadTrace:
    :raises OSError:
    """
    latest = 0
    for line, text in traces.lines_of(path):
        if text and not text.startswith("#"):
            request = _request(path, line, text.split())
            if request.at_s < latest:
                raise traces.BadTrace(path, f"{request.at_s} s is before {latest} s, the time of the line above", line)
            latest = request.at_s
            yield request


def _request(path: pathlib.Path, line: int, words: list[str]) -> VolumeTraceRequest:
    at_s, size, volume_type, life = (*words, *[_NONE] * 4)[:4]
    numbers = (at_s, size, "0" if life == _NONE else life)
    if not 2 <= len(words) <= 4 or not all(each.isascii() and each.isdecimal() for each in numbers):
        raise traces.BadTrace(path, f"{' '.join(words)[:40]!r} is not SECONDS GIB [TYPE [LIFETIME]]", line)
    if not 1 <= int(size) <= LARGEST_GB:
        raise traces.BadTrace(path, f"the size must be from 1 to {LARGEST_GB} GiB, got {size[:20]}", line)
    wanted = None if volume_type == _NONE else volume_type
    return VolumeTraceRequest(int(at_s), int(size), wanted, None if life == _NONE else float(life))
