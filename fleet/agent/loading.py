# SPDX-License-Identifier: Apache-2.0
"""Finds the class that an option names: a built-in name, an entry point, or a dotted path.

Called by :mod:`compute_agent.drivers`, :mod:`compute_agent.monitors` and :mod:`volume_agent.drivers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import TypeVar

from fleet import errors, plugins

Base = TypeVar("Base")


def find_class(option: str, name: str, base: type[Base], built_in: Mapping[str, str], group: str) -> type[Base]:
    """:param built_in: name → dotted path
    :param group: of entry points
    :raises errors.ClassNotFound: naming the option, the class and the reason
    """

    def not_found(reason: str) -> errors.ClassNotFound:
        return errors.ClassNotFound(option=option, class_name=name, reason=reason)

    found: object = None
    if name in built_in or "." in name:
        try:
            found = plugins.import_class(built_in.get(name, name))
        except plugins.NotImported as missing:
            raise not_found(str(missing)) from None
    if found is None:
        found = next((each.load() for each in metadata.entry_points(group=group, name=name)), None)
    if found is None:
        known = ", ".join(built_in)
        raise not_found(f"it is none of {known}, no entry point in {group} and no dotted path")
    if not (isinstance(found, type) and issubclass(found, base)):
        raise not_found(f"it is not a subclass of {base.__module__}.{base.__name__}")
    return found
