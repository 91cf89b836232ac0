# SPDX-License-Identifier: Apache-2.0
"""The message about a wrong command line: one line, and where to read more.

Called by :mod:`fleet_cli.base.application`.
"""

from __future__ import annotations

import argparse
import functools
import sys
from typing import NoReturn

_STATUS = 2


def brief(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Let a parser refuse arguments in one line; argparse prints its whole usage before."""
    parser.error = functools.partial(_error, parser)  # type: ignore[method-assign]
    return parser


def _error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    sys.exit(refuse(parser.prog, message, f"{parser.prog} --help"))


def refuse(program: str, message: str, pointer: str) -> int:
    """Print the refusal. Return the exit status of a wrong command line."""
    print(f"{program}: {message}. See '{pointer}'.".replace("?. See", "? See"), file=sys.stderr)
    return _STATUS
