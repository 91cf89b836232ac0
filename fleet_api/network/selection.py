# SPDX-License-Identifier: Apache-2.0
"""Parameters of the Networking API: which objects of a list are wanted, and which of their fields.

Called by :mod:`fleet_api.network.networks` and :mod:`fleet_api.network.ports`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import falcon

from fleet import errors
from fleet.json_codec import JSONMapping, JSONObject
from fleet_api.requests import paging

_MOST = 1000


def chosen(request: falcon.Request, found: Iterable[JSONMapping], known: Collection[str]) -> list[dict[str, object]]:
    """Return the objects that have one of the wanted values in each field, with the wanted fields.

    :param known: fields that parameters name. Other parameters are ignored, as the API has it
    """
    for name in known:
        # A request may have thousands of values, and a project thousands of ports.
        if wanted := {value.lower() for value in request.get_param_as_list(name) or ()}:
            found = [each for each in found if _text(each[name]) in wanted]
    entries = list(found)
    part, _more = paging.cut(request, entries, [each["id"] for each in entries], _MOST)
    fields = _fields(request)
    return [_with(fields, each) for each in part]


def shown(request: falcon.Request, entry: Mapping[str, object]) -> JSONObject:
    """Return the fields that the parameter ``fields`` names; all without it. :raises errors.InvalidInput: none is known"""
    return _with(_fields(request), entry)


def _fields(request: falcon.Request) -> Collection[str]:
    return set(request.get_param_as_list("fields") or ())


def _with(wanted: Collection[str], entry: Mapping[str, object]) -> JSONObject:
    """:param wanted: empty: all fields"""
    found = {name: value for name, value in entry.items() if name in wanted or not wanted}
    if not found:
        raise errors.InvalidInput(field="fields", reason=f"must be of {', '.join(sorted(entry))}")
    return found


def _text(value: object) -> str:
    return str(value).lower()
