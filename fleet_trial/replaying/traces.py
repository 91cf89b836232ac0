# SPDX-License-Identifier: Apache-2.0
"""Reads request traces: the requested flavors in their order, and the lifetimes of the instances.

A trace has one line for each five minutes: ``<time> token,token,|,token,|``. A token is a flavor's letter; ``|`` ends
the batch of one tenant. A flavor map has a line ``cores,GB letter`` for each letter. A lifetimes file has the same
shape as the trace: ``U<b>`` is a lifetime of bin ``b``, ``C<b>`` one longer than the trace. Its interval map has lines
``seconds bin``. Lines that begin with ``#`` tell the source of a trace. Called by :mod:`fleet_trial.replaying.replay`
and :mod:`fleet_cli.planning.replay`.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import pathlib
from collections.abc import Iterator, Sequence

#: A small, made-up trace that comes with the program.
SAMPLE = pathlib.Path(__file__).parent / "samples" / "trace.txt"
#: Seconds that one line stands for.
LINE_S = 300
_BATCH_END = "|"
#: Bytes of one line. Lines of real traces have some thousands.
_LONGEST_LINE = 16 * 2**20
#: Files beside a trace that may tell its source.
_NOTES = ("ATTRIBUTION.txt", "NOTICE", "README.md", "README.txt", "README")
_LONGEST_NOTE = 500


@dataclasses.dataclass(frozen=True)
class TraceRequest:
    """``len(lifetimes_s)`` instances of one flavor, requested together at ``at_s``. A lifetime of None has no end."""

    at_s: int
    flavor: str
    lifetimes_s: tuple[float | None, ...]

    @property
    def count(self) -> int:
        return len(self.lifetimes_s)


class BadTrace(ValueError):
    """A file is no trace, or does not belong to it. The message has the file, the line and the reason."""

    def __init__(self, path: pathlib.Path, reason: str, line: int | None = None) -> None:
        super().__init__(f"{path}{f', line {line}' if line else ''}: {reason}")


def read_flavors(path: pathlib.Path, disk_gb: int = 0) -> dict[str, dict[str, int]]:
    """Return the sizes of each flavor by its letter.

    :raises BadTrace:
    :raises OSError:
    """
    flavors = {}
    for line, size, letter in _pairs(path):
        cores, _, memory_gb = size.partition(",")
        vcpus, memory_mb = _number(cores), round(_number(memory_gb) * 1024)
        if vcpus < 1 or memory_mb < 1:
            raise BadTrace(path, f"{size!r} is not CORES,GB: both are numbers above 0", line)
        flavors[letter] = {"vcpus": int(vcpus), "memory_mb": memory_mb, "root_gb": disk_gb}
    return flavors


def read_bins(path: pathlib.Path) -> dict[int, float]:
    """Return the middle of each lifetime bin in seconds.

    :raises BadTrace:
    :raises OSError:
    """
    seconds: dict[int, list[int]] = {}
    for line, second, bin_ in _pairs(path):
        if not (second.isdecimal() and bin_.isdecimal()):
            raise BadTrace(path, f"'{second} {bin_}' is not SECONDS BIN: both are whole numbers", line)
        seconds.setdefault(int(bin_), []).append(int(second))
    return {bin_: (min(found) + max(found)) / 2 for bin_, found in seconds.items()}


def read_requests(
    path: pathlib.Path, lifetimes: pathlib.Path | None = None, bins: dict[int, float] | None = None
) -> Iterator[TraceRequest]:
    """Return the requests in order. Equal flavors in sequence in one batch are one request.

    :raises BadTrace:
    :raises OSError:
    """
    requests, lives = _data(path), _data(lifetimes or path)
    for slot, (line, lives_line) in enumerate(itertools.zip_longest(requests, lives)):
        if line is None or lives_line is None:
            raise BadTrace(lifetimes or path, "it has not as many lines as the trace")
        number, tokens = line
        lives_number, ends = lives_line
        if len(tokens) != len(ends):
            raise BadTrace(lifetimes or path, f"{len(tokens)} requests but {len(ends)} lifetimes", lives_number)
        alive = ends if lifetimes else [_BATCH_END if token == _BATCH_END else "C0" for token in tokens]
        try:
            yield from _line_requests(slot * LINE_S, tokens, alive, bins or {})
        except (KeyError, ValueError):
            raise BadTrace(lifetimes or path, "it has a lifetime that is no U or C with a known bin", number) from None


def note(path: pathlib.Path) -> str:
    """Return the source of the trace: its first lines, if they begin with #, or a file beside it."""
    said = []
    for _, text in lines_of(path):
        if not text.startswith("#"):
            break
        said.append(text.lstrip("# "))
    if said:
        return " ".join(said)
    for name in _NOTES:
        file = path.parent / name
        if file.is_file():
            paragraphs = "\n".join(text for _, text in lines_of(file)).split("\n\n")
            found = next((each for each in paragraphs if each.strip() and not each.startswith("#")), "")
            return " ".join(found.split())[:_LONGEST_NOTE]
    return ""


def _line_requests(
    at_s: int, tokens: Sequence[str], ends: Sequence[str], bins: dict[int, float]
) -> Iterator[TraceRequest]:
    for flavor, group in itertools.groupby(zip(tokens, ends, strict=True), key=lambda pair: pair[0]):
        if flavor != _BATCH_END:
            yield TraceRequest(at_s, flavor, tuple(_lifetime_s(end, bins) for _, end in group))


def _lifetime_s(token: str, bins: dict[int, float]) -> float | None:
    return None if token.startswith("C") else bins[int(token[1:])]


def _data(path: pathlib.Path) -> Iterator[tuple[int, list[str]]]:
    """Return number and tokens of each line, without comments."""
    for number, text in lines_of(path):
        if text.startswith("#"):
            continue
        time, _, tokens = text.partition(" ")
        if not time.isdecimal():
            raise BadTrace(path, "it is not a time, a space and tokens, as in '300 a,a,|,b,|,'", number)
        yield number, [token for token in tokens.split(",") if token]


def _pairs(path: pathlib.Path) -> Iterator[tuple[int, str, str]]:
    for number, text in lines_of(path):
        if text and not text.startswith("#"):
            parts = text.split()
            if len(parts) != 2:
                raise BadTrace(path, f"{text[:40]!r} is not two words", number)
            yield number, parts[0], parts[1]


def lines_of(path: pathlib.Path) -> Iterator[tuple[int, str]]:
    """Return lines numbered from 1. A file that is no text is refused early, because a device may be endless.

    :raises BadTrace:
    :raises OSError:
    """
    with path.open("rb") as file:
        for number in itertools.count(1):
            raw = file.readline(_LONGEST_LINE)
            if not raw:
                return
            try:
                text = raw.decode()
            except UnicodeDecodeError:
                text = "\0"
            if "\0" in text or (len(raw) == _LONGEST_LINE and not raw.endswith(b"\n")):
                raise BadTrace(path, "it is not a text file", number)
            yield number, text.strip()


def _number(text: str) -> float:
    """Return 0 for text that is no finite number."""
    try:
        number = float(text)
    except ValueError:
        return 0
    return number if math.isfinite(number) else 0
