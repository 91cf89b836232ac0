# SPDX-License-Identifier: Apache-2.0
"""Load classes by dotted path from the configuration. The loaders of drivers, filters and weighers call it."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeVar

from oslo_config import cfg

from fleet import errors, plugins
from scheduler.loading import plugin_files, plugin_methods

Base = TypeVar("Base")


class Makeable(Protocol):
    """A plugin class that reads its options itself."""

    @classmethod
    def from_conf(cls, conf: Any) -> Self: ...


Made = TypeVar("Made", bound=Makeable)
#: Characters of what a constructor raised, in an error.
_LONGEST_PROBLEM = 300
#: The built-in classes of a package, by the package's prefix. Below it the class name alone decides, so nova's module
#: names (such as ``filters.ram_filter.RamFilter``) work too. The class name works without the package as well.
BuiltIn = Mapping[str, Sequence[type]]
_NOVA_HINT = (
    "; nova and cinder are not needed here: set scheduler_plugin_directories, or import from scheduler.filters, "
    "scheduler.weights or scheduler.driver what the plugin imports from nova.scheduler, and from fleet.errors what it "
    "imports from nova.exception"
)
_NO_ALIAS = "; fleet has no such module of nova or cinder for plugins: change the plugin"
#: What files of nova and cinder import beside oslo's libraries.
_EXTRA = ("netaddr", "six")


def _advice(path: str, missing: str) -> str:
    """Return what to do about a module that was not found: of nova or cinder, of their libraries, or the plugin's own."""
    if missing.partition(".")[0] in plugin_files.ROOTS:
        return _NO_ALIAS if plugin_files.is_installed() else _NOVA_HINT
    if missing in _EXTRA:
        return "; install fleet[compat]"
    if not missing or not f"{path}.".startswith(f"{missing}."):
        return ""
    return (
        f"; Python looks for {missing} in the directories of PYTHONPATH: set it here as for fleet-scheduler, such as "
        "PYTHONPATH=/opt/mine"
    )


def matching(base: type[Base], paths: Iterable[str], option: str, built_in: BuiltIn) -> list[type[Base]]:
    """Return the classes below ``base`` that the paths name, or that the functions they name return.

    :raises errors.ClassNotFound: a path leads to nothing of the kind
    """
    classes: list[type[Base]] = []
    for path in entries(paths):
        if "," in path:
            reason = "the option has one class a line: repeat it for each"
            raise errors.ClassNotFound(option=option, class_name=path, reason=reason)
        found = load(path, option, built_in)
        if inspect.isclass(found) and issubclass(found, base) and not found.__name__.startswith("_"):
            classes.append(found)
        elif inspect.isfunction(found):
            classes.extend(found())
        else:
            reason = f"it is neither a public subclass of {base.__name__} nor a function that returns some"
            raise errors.ClassNotFound(option=option, class_name=path, reason=reason)
    return classes


def entries(values: Iterable[str]) -> list[str]:
    """Return the entries of an option that lists names. Without the empty ones, such as the one of an emptied option."""
    return [value for value in values if value.strip()]


def distinct(kind: str, options: Mapping[type, str], advice: str = "") -> None:
    """Check that no two classes have one name: logs, metrics and explanations tell them apart by it.

    :param kind: "filters" or "weighers", for the message
    :param options: the option that names each class
    :raises errors.ConfigError: with the dotted paths of the classes
    """
    named: dict[str, list[type]] = {}
    for cls in options:
        named.setdefault(cls.__name__, []).append(cls)
    for name, alike in named.items():
        if len(alike) > 1:
            paths = ", ".join(path_of(cls) for cls in alike)
            number = "two" if len(alike) == 2 else len(alike)
            reason = (
                f"is ambiguous: {number} {kind} are named {name}: {paths}. Logs, metrics and 'fleet explain' name them by "
                f"class only: rename one, or leave it out{advice}"
            )
            raise errors.ConfigError(option=options[alike[-1]], reason=reason)


def path_of(cls: type) -> str:
    """Return the dotted path of a class."""
    return f"{cls.__module__}.{cls.__qualname__}"


def subclass(base: type[Base], path: str, option: str) -> type[Base]:
    """Return the class at ``path``. :raises errors.ClassNotFound: it is no subclass of ``base``"""
    found = load(path, option)
    if inspect.isclass(found) and issubclass(found, base):
        return found
    reason = f"it is not a subclass of {base.__module__}.{base.__name__}"
    raise errors.ClassNotFound(option=option, class_name=path, reason=reason)


def make(cls: type[Made], conf: cfg.ConfigOpts, option: str) -> Made:
    """Return a plugin of the class.

    :raises errors.ConfigError: its constructor raises an error, such as for an option, or it lacks the method to call
    """
    try:
        made = cls.from_conf(conf)
    except errors.FleetError:
        raise
    except Exception as failed:
        problem = f"{type(failed).__name__}: {failed}"[:_LONGEST_PROBLEM]
        reason = f"names class {path_of(cls)}, whose making raised {problem}"
        raise errors.ConfigError(option=option, reason=reason) from failed
    fault = plugin_methods.fault(made)
    if fault:
        raise errors.ConfigError(option=option, reason=f"names class {path_of(cls)}, {fault}")
    return made


def load(path: str, option: str, built_in: BuiltIn | None = None) -> object:
    """Import what a dotted path, or the name of a built-in class, names; a leading ``nova.`` is dropped.

    :raises errors.ClassNotFound:
    """
    wanted = path.removeprefix("nova.")
    for package, classes in (built_in or {}).items():
        for cls in classes:
            if wanted == cls.__name__ or (wanted.startswith(package) and wanted.endswith(f".{cls.__name__}")):
                return cls
    if "." not in wanted:
        reason = "no built-in class has this name, and a class of your own needs its full dotted path"
        raise errors.ClassNotFound(option=option, class_name=path, reason=reason)
    try:
        with plugin_files.their_configuration():
            return plugins.import_class(wanted)
    except plugins.NotImported as failed:
        reason = f"{failed}{_advice(wanted, failed.missing)}"
        raise errors.ClassNotFound(option=option, class_name=path, reason=reason) from failed
