# SPDX-License-Identifier: Apache-2.0
"""Request traces: who asked for what, in which order, and for how long.

A trace has one line per five minutes: ``<time> token,token,|,token,|``. A token is a flavor's letter, ``|`` closes one
tenant's batch. A flavor map names the letters, ``cores,GB letter`` a line. A lifetimes file has the same shape: ``U<b>``
is a life of bin ``b``, ``C<b>`` one that outlasts the trace; its interval map gives the bins, ``seconds bin`` a line.
"""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Iterator, Sequence

#: Seconds of one line.
LINE_S = 300
_BATCH_END = "|"


@dataclasses.dataclass(frozen=True)
class TraceRequest:
    """``len(lifetimes_s)`` instances of one flavor, asked for together at ``at_s``; a lifetime of None has no end."""

    at_s: int
    flavor: str
    lifetimes_s: tuple[float | None, ...]

    @property
    def count(self) -> int:
        return len(self.lifetimes_s)


def read_flavors(path: pathlib.Path, disk_gb: int = 0) -> dict[str, dict[str, int]]:
    """Letter to the sizes of a flavor."""
    flavors = {}
    for size, letter in _pairs(path):
        cores, memory_gb = size.split(",")
        flavors[letter] = {"vcpus": int(cores), "memory_mb": round(float(memory_gb) * 1024), "root_gb": disk_gb}
    return flavors


def read_bins(path: pathlib.Path) -> dict[int, float]:
    """Lifetime bin to the middle of its seconds."""
    seconds: dict[int, list[int]] = {}
    for second, bin_ in _pairs(path):
        seconds.setdefault(int(bin_), []).append(int(second))
    return {bin_: (min(found) + max(found)) / 2 for bin_, found in seconds.items()}


def read_requests(
    path: pathlib.Path, lifetimes: pathlib.Path | None = None, bins: dict[int, float] | None = None
) -> Iterator[TraceRequest]:
    """The requests in order: equal flavors that follow each other in one batch are one request."""
    with path.open() as requests, (lifetimes or path).open() as lives:
        for number, (line, lives_line) in enumerate(zip(requests, lives, strict=True)):
            tokens, ends = _tokens(line), _tokens(lives_line)
            if len(tokens) != len(ends):
                raise ValueError(f"line {number + 1}: {len(tokens)} requests but {len(ends)} lifetimes")
            alive = ends if lifetimes else [_BATCH_END if token == _BATCH_END else "C0" for token in tokens]
            yield from _line_requests(number * LINE_S, tokens, alive, bins or {})


def _line_requests(
    at_s: int, tokens: Sequence[str], ends: Sequence[str], bins: dict[int, float]
) -> Iterator[TraceRequest]:
    for flavor, group in itertools.groupby(zip(tokens, ends, strict=True), key=lambda pair: pair[0]):
        if flavor != _BATCH_END:
            yield TraceRequest(at_s, flavor, tuple(_lifetime_s(end, bins) for _, end in group))


def _lifetime_s(token: str, bins: dict[int, float]) -> float | None:
    return None if token.startswith("C") else bins[int(token[1:])]


def _tokens(line: str) -> list[str]:
    _, _, tokens = line.strip().partition(" ")
    return [token for token in tokens.split(",") if token]


def _pairs(path: pathlib.Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text().splitlines():
        if line.strip():
            first, second = line.split()
            yield first, second
