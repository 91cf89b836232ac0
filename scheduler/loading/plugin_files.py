# SPDX-License-Identifier: Apache-2.0
"""Directories with filters and weighers for nova and cinder (``scheduler_plugin_directories``), and what these import.

The names that such files import, ``nova.scheduler.filters`` and others, are in :mod:`scheduler.compat`. They are put into
``sys.modules`` once in a process, with the options of the first configuration that has the directories.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

from oslo_config import cfg

from fleet import errors

ROOTS = ("nova", "cinder")
_OPTION = "scheduler_plugin_directories"
_HOLDER = "nova.conf"
#: Of what ``oslo_config.cfg.CONF`` is meanwhile; files that are imported may load others
_LOADING = threading.RLock()


def is_installed() -> bool:
    """Return True if the aliases are in place."""
    return _is_ours(sys.modules.get(_HOLDER))


def install(conf: cfg.ConfigOpts) -> None:
    """Let files in the configured directories be imported, and find there what they import of nova and cinder.

    :raises errors.ConfigError: a directory is not there, or nova or cinder is installed
    """
    directories = conf[_OPTION]
    if not directories:
        return
    for directory in directories:
        if not os.path.isdir(directory):
            raise errors.ConfigError(option=_OPTION, reason=f"names {directory}, which is no directory")
    if not is_installed():
        _refuse_beside_real_ones()
        _put_in_place(conf)
    # Last: no file of a plugin must hide an installed module.
    sys.path.extend(each for each in directories if each not in sys.path)


def remove() -> None:
    """Take the aliases away again; for tests."""
    for name in [name for name, module in sys.modules.items() if _is_ours(module)]:
        del sys.modules[name]


@contextlib.contextmanager
def their_configuration() -> Iterator[None]:
    """Let files that are imported meanwhile find nova's and cinder's options in ``oslo_config.cfg.CONF``.

    Does nothing without the aliases. Several threads may load plugins: at start, at SIGHUP, and for plans of losses.
    """
    if not is_installed():
        yield
        return
    with _LOADING:
        ours = cfg.CONF
        cfg.CONF = vars(sys.modules[_HOLDER])["CONF"]
        try:
            yield
        finally:
            cfg.CONF = ours


class _Alias(types.ModuleType):
    """A module of nova or cinder in name."""


def _is_ours(module: object) -> bool:
    return isinstance(module, _Alias)


def _refuse_beside_real_ones() -> None:
    """:raises errors.ConfigError:"""
    there = [name for name in ROOTS if importlib.util.find_spec(name) is not None]
    if there:
        reason = (
            f"cannot be used where {' and '.join(there)} is installed: its modules would hide those that fleet has for "
            "plugins. Install fleet into an environment of its own"
        )
        raise errors.ConfigError(option=_OPTION, reason=reason)


def _put_in_place(conf: cfg.ConfigOpts) -> None:
    # By name: the aliases stand above all that they name, and this module below it.
    names = {root: importlib.import_module(f"scheduler.compat.{root}_names") for root in ROOTS}
    plugin_conf = importlib.import_module("scheduler.compat.configuration").PluginConf(conf)
    contents: dict[str, Any] = {}
    for module in names.values():
        contents.update(module.aliases(plugin_conf))
    for name, content in contents.items():
        made = _Alias(name)
        # A package: a module below it that is not there is reported by its full name.
        made.__path__ = []
        vars(made).update(content)
        sys.modules[name] = made
    for name in contents:
        parent, _dot, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, sys.modules[name])
