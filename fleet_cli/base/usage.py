# SPDX-License-Identifier: Apache-2.0
"""The message about a wrong command line: one line, and where to read more.

Called by :mod:`fleet_cli.base.application`. It also refuses empty arguments: a shell makes them of a variable that is not
set, and a command without its filter or its destination would do more than its user wants.
"""

from __future__ import annotations

import argparse
import functools
import sys
from typing import NoReturn

from fleet.client import argument_types

_STATUS = 2


def brief(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Let a parser refuse arguments in one line; argparse prints its whole usage before."""
    parser.error = functools.partial(_error, parser)  # type: ignore[method-assign]
    return parser


def require_texts(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Let a parser refuse an empty text, but for arguments with a type of their own or an empty default."""
    for action in parser._actions:
        if (
            action.type is None
            and action.nargs != 0
            and action.choices is None
            and "" not in (action.default, action.const)
        ):
            action.type = argument_types.text
    return parser


def _error(parser: argparse.ArgumentParser, message: str) -> NoReturn:
    sys.exit(refuse(parser.prog, message, f"{parser.prog} --help"))


def refuse(program: str, message: str, pointer: str) -> int:
    """Print the refusal. Return the exit status of a wrong command line."""
    print(f"{program}: {message}. See '{pointer}'.".replace("?. See", "? See"), file=sys.stderr)
    return _STATUS
