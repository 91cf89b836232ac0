# SPDX-License-Identifier: Apache-2.0
"""The result of a check: good, doubtful or bad, with text and advice.

Returned by the checks of all programs. ``fleet doctor`` and the ``check`` commands of ``fleet-manage`` print it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Sequence

from oslo_config import cfg

from fleet import conf as fleet_conf
from fleet import errors

#: Names in one finding.
_NAMED = 5


class Level(enum.IntEnum):
    """The result of several findings is the worst level. Its number is the exit status, as of nova-status."""

    OK = 0
    WARN = 1
    FAIL = 2


@dataclasses.dataclass(frozen=True)
class Finding:
    """``check`` names the check. ``fix`` is advice for an operator; empty if nothing is wrong."""

    check: str
    level: Level
    found: str
    fix: str = ""


def good(check: str, found: str) -> Finding:
    return Finding(check, Level.OK, found)


def doubtful(check: str, found: str, fix: str = "") -> Finding:
    return Finding(check, Level.WARN, found, fix)


def bad(check: str, found: str, fix: str = "") -> Finding:
    return Finding(check, Level.FAIL, found, fix)


def worst(findings: Iterable[Finding]) -> Level:
    return max((each.level for each in findings), default=Level.OK)


def few(names: Sequence[str], number: int | None = None) -> str:
    """Return the first names, and the number of the others. :param number: of all, if ``names`` are not all of them"""
    number = len(names) if number is None else number
    return ", ".join(names[:_NAMED]) + (f" and {number - _NAMED} more" if number > _NAMED else "")


def of_service(
    check: str,
    files: Sequence[str],
    register: Callable[[cfg.ConfigOpts], None],
    try_out: Callable[[cfg.ConfigOpts], str],
) -> Finding:
    """Return whether a service could start with the configuration ``files``.

    :param register: declares the service's options
    :param try_out: does what the service does first, and returns a description of it
    """
    argv = [part for file in files for part in ("--config-file", file)]
    conf = cfg.ConfigOpts()
    try:
        fleet_conf.load_config(argv, check, register=[register], conf=conf, setup_logging=False)
        return good(check, try_out(conf))
    except (SystemExit, errors.FleetError, cfg.ConfigFileValueError) as refusal:
        found = str(refusal).removeprefix(f"{check}: ")
    except Exception as broken:
        # A plugin may raise anything.
        found = f"{type(broken).__name__}: {broken}"
    return bad(check, found, "The daemon will not start like this: correct the option.")
