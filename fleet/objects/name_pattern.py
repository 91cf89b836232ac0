# SPDX-License-Identifier: Apache-2.0
"""Regular expressions of users.

RE2 matches them in time linear in the text; Python's ``re`` may take forever. Called by
:mod:`fleet_api.servers.input.server_filters`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import re2

from fleet import errors

#: Characters of a pattern. Names have at most 255.
LONGEST = 255
#: Bytes that one pattern may use, compiled. RE2 refuses a larger one, such as (a{1000}){1000}.
_MOST_MEMORY = 2**20


def compiled(pattern: str, field: str) -> Callable[[str], bool]:
    """Return a function that searches ``pattern`` in a text.

    Without back references and look-around, which need more than linear time.

    :raises errors.InvalidInput: naming ``field``: too long, or no regular expression of RE2
    """
    if len(pattern) > LONGEST:
        reason = f"has {len(pattern)} characters, at most {LONGEST} are allowed"
        raise errors.InvalidInput(field=field, reason=reason)
    try:
        search = re2.compile(pattern, _options()).search
    # The second: half of a surrogate pair, which RE2 cannot read.
    except (re2.error, UnicodeEncodeError):
        reason = "is not a regular expression (RE2: no back references, no look-around), or needs too much memory"
        raise errors.InvalidInput(field=field, reason=reason) from None
    return lambda text: search(text) is not None


@functools.cache
def _options() -> re2.Options:
    options = re2.Options()
    options.max_mem = _MOST_MEMORY
    # Otherwise RE2 writes each wrong pattern to stderr.
    options.log_errors = False
    return options
