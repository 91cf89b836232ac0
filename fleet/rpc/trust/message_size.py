# SPDX-License-Identifier: Apache-2.0
"""The size and the nesting depth of a message.

Called by :mod:`fleet.rpc.trust.admission` and :mod:`fleet.rpc.clients.api`. For its size, a message is
encoded as JSON again: that takes a fraction of the time of a walk through it.
"""

from __future__ import annotations

import json

import orjson

from fleet.json_codec import is_deeper

_ANY = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"), default=str)
_FAST = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
#: Namespaces with values in any form, which users and drivers choose. Agents' own have numbers of known ranges.
FREE_FORM = ("operator", "compute_task", "volume")
#: Key of a message that stands for one whose body could not be decoded; its value is the reason.
REFUSED = "fleet_refused"


class TooDeep(Exception):
    """Lists and mappings are nested more deeply than allowed."""


def _encoded(value: object) -> str:
    """:raises RecursionError:"""
    try:
        return orjson.dumps(value, str, _FAST).decode()
    except (TypeError, ValueError):  # it has what only the slower one writes
        return _ANY.encode(value)


def text_of(value: object, deepest: int) -> str:
    """Return ``value`` as JSON without spaces.

    :param deepest: how many lists and mappings may be nested
    :raises TooDeep:
    """
    try:
        text = _encoded(value)
    except RecursionError:
        raise TooDeep from None
    # The depth is at most the number of brackets, and most messages have few.
    if text.count("[") + text.count("{") > deepest and is_deeper(value, deepest):
        raise TooDeep
    return text
