# SPDX-License-Identifier: Apache-2.0
"""Checks that a filter or weigher defines the method that the scheduler calls, with the arguments that it passes.

Called by :mod:`scheduler.loading.named_classes` when a plugin is made. Otherwise each request would fail with it.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from scheduler.engine import plugins
from scheduler.engine.supervision.failures import is_our_class
from scheduler.engine.supervision.supervision import is_ours


class _Kind(NamedTuple):
    """The methods of filters, or of weighers.

    :param together: those that judge all hosts in one call; a class that overrides one needs none of the others
    :param single: the method for one host
    :param column: the method for columns, of classes below ``column_form``
    """

    together: tuple[str, ...]
    single: str
    column: str
    column_form: type


_FILTER = _Kind(("filter_all", "_filter_one"), "host_passes", "mask", plugins.ColumnFilter)
_WEIGHER = _Kind(("weigh_objects",), "_weigh_object", "raw", plugins.ColumnWeigher)
#: What stands where a class defines nothing.
_UNDEFINED = (
    plugins.BaseHostFilter.host_passes,
    plugins.ColumnFilter.mask,
    plugins.BaseHostWeigher._weigh_object,
    plugins.ColumnWeigher.raw,
)
#: Arguments of each of these methods, besides ``self``.
_ARGUMENTS = {
    "filter_all": "filter_obj_list, filter_properties",
    "_filter_one": "obj, filter_properties",
    "host_passes": "host_state, filter_properties",
    "mask": "hosts, request",
    "weigh_objects": "weighed_obj_list, weight_properties",
    "_weigh_object": "host_state, weight_properties",
    "raw": "hosts, request",
}


def fault(plugin: object) -> str:
    """Return what is wrong with the methods of a plugin, as the end of a sentence about it; empty if nothing is."""
    if is_ours(plugin) or not isinstance(plugin, (plugins.BaseHostFilter, plugins.BaseHostWeigher)):
        return ""
    name = _judging(plugin, _FILTER if isinstance(plugin, plugins.BaseHostFilter) else _WEIGHER)
    method = getattr(plugin, name)
    wanted = f"{name}(self, {_ARGUMENTS[name]})"
    has_column = isinstance(plugin, plugins.ColumnWeigher) and plugin.column
    if getattr(method, "__func__", None) in _UNDEFINED and not has_column:
        return f"which does not define {wanted}{_misspelt(type(plugin), name)}"
    declared = _signature(method)
    if declared is None or _takes_two(declared):
        return ""
    return f"whose method {name} cannot be called with the scheduler's arguments: it must be {wanted}"


def _judging(plugin: plugins.Plugin, kind: _Kind) -> str:
    """Return the method that the scheduler calls, or that the base class calls for it."""
    for name in (*kind.together, kind.single):
        if _is_own(plugin, name):
            return name
    return kind.column if isinstance(plugin, kind.column_form) else kind.single


def _is_own(plugin: plugins.Plugin, name: str) -> bool:
    """Return True if the attribute is not one that comes with the scheduler."""
    if name in vars(plugin):
        return True
    return not is_our_class(next(cls for cls in type(plugin).__mro__ if name in vars(cls)))


def _misspelt(cls: type, name: str) -> str:
    own = [each for base in cls.__mro__ if base is not object and not is_our_class(base) for each in vars(base)]
    close = difflib.get_close_matches(name, own, n=1)
    return f"; it has {close[0]}, which is never called" if close else ""


def _signature(method: Callable[..., Any]) -> inspect.Signature | None:
    """Return the parameters of a method; None if they are not known, as of one that is written in C."""
    try:
        return inspect.signature(method)
    except (TypeError, ValueError):
        return None


def _takes_two(declared: inspect.Signature) -> bool:
    try:
        declared.bind(None, None)
    except TypeError:
        return False
    return True
