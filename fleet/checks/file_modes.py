# SPDX-License-Identifier: Apache-2.0
"""Checks whether others can read a configuration file with secrets. :mod:`fleet.checks.option_check` calls it."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from fleet.checks import findings
from fleet.checks.findings import Finding

CHECK = "options"
_OTHERS = 0o007
#: A URL with a password.
_WITH_PASSWORD = re.compile(r"://[^/@\s]*:[^/@\s]+@")
#: Options of plugins, which no program declares.
_NAMES = re.compile(r"password|secret|token$")


def check(
    file: str, sections: Mapping[str, Mapping[str, Sequence[str]]], secret: Collection[tuple[str, str]]
) -> Iterator[Finding]:
    """:param sections: by section and option, the lines of its values
    :param secret: sections and names of options that are secrets, unless they are URLs without a password
    """
    try:
        mode = os.stat(file).st_mode & 0o777
    except OSError:
        return
    held = [
        f"[{section}] {name}"
        for section, options in sections.items()
        for name, lines in options.items()
        if _is_secret("\n".join(lines), (section, name) in secret or _NAMES.search(name) is not None)
    ]
    if held and mode & _OTHERS:
        text = f"{file} has mode {mode:04o}, and everybody on this machine can read {findings.few(held)}"
        yield findings.doubtful(
            CHECK, text, f"chmod 0640 {file}, with the group of the daemons; and renew the passwords."
        )


def _is_secret(value: str, is_named: bool) -> bool:
    return _WITH_PASSWORD.search(value) is not None or (is_named and bool(value.strip()) and "://" not in value)
