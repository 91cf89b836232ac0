# SPDX-License-Identifier: Apache-2.0
"""CONF as plugins for nova and cinder read it: groups and option names of theirs, with the values of ours.

Called by :mod:`scheduler.compat.nova_names` and :mod:`scheduler.compat.cinder_names`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

import fleet.conf
from scheduler.compute import conf as compute_conf
from scheduler.volumes import conf as volume_conf

#: Where an option of cinder's [DEFAULT] is here.
_VOLUME = "volume"


def _later_names() -> dict[tuple[str, str], tuple[str, str]]:
    """Return (group, name) of nova's later options → (group, name) here."""
    found = {}
    for group, options in [*fleet.conf.list_opts(), *compute_conf.list_opts(), *volume_conf.list_opts()]:
        for option in options:
            for later in option.deprecated_opts:
                name = str(later.name or option.dest).replace("-", "_")
                found[later.group or "DEFAULT", name] = (str(group), option.dest)
    return found


class PluginConf:
    """An ``oslo_config.cfg.ConfigOpts`` as far as filters and weighers use one.

    Options that a plugin registers are read from our configuration files. One that is here already is not registered again.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._later = _later_names()

    def __getattr__(self, name: str) -> Any:
        """:raises cfg.NoSuchOptError:"""
        groups = {group for group, _name in self._later}
        if name in groups and name not in self._conf or self._is_group(name):
            return _Group(self, name)
        return self.value("DEFAULT", name)

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def value(self, group: str, name: str) -> Any:
        """Return the value of an option. :raises cfg.NoSuchOptError: there is none of this name"""
        for place, option in self._places(group, name):
            if place == "DEFAULT":
                if option in self._conf:
                    return self._conf[option]
            elif place in self._conf and option in self._conf[place]:
                return self._conf[place][option]
        raise cfg.NoSuchOptError(name, None if group == "DEFAULT" else cfg.OptGroup(group))

    def _places(self, group: str, name: str) -> Iterable[tuple[str, str]]:
        if (group, name) in self._later:
            yield self._later[group, name]
        yield group, name
        if group == "DEFAULT":
            yield _VOLUME, name

    def _is_group(self, name: str) -> bool:
        return name in self._conf and isinstance(self._conf[name], cfg.ConfigOpts.GroupAttr)

    def _has(self, group: str, option: cfg.Opt) -> bool:
        try:
            self.value(group, option.dest)
        except cfg.NoSuchOptError:
            return False
        return True

    def register_opt(self, opt: cfg.Opt, group: Any = None, cli: bool = False) -> bool:
        """Register an option, unless it is here already. Command line options are read from files only."""
        name = getattr(group, "name", group)
        if self._has(name or "DEFAULT", opt):
            return False
        return bool(self._conf.register_opt(opt, group=name))

    def register_opts(self, opts: Iterable[cfg.Opt], group: Any = None) -> None:
        for opt in opts:
            self.register_opt(opt, group)

    register_cli_opt, register_cli_opts = register_opt, register_opts

    def register_group(self, group: cfg.OptGroup) -> None:
        self._conf.register_group(group)

    def import_opt(self, name: str, module_str: str, group: str | None = None) -> None:
        """Do nothing: all options are here from the start."""

    def import_group(self, group: str, module_str: str) -> None:
        """Do nothing: all options are here from the start."""


class _Group:
    def __init__(self, conf: PluginConf, name: str) -> None:
        self._conf, self._name = conf, name

    def __getattr__(self, name: str) -> Any:
        return self._conf.value(self._name, name)

    def __getitem__(self, name: str) -> Any:
        return self._conf.value(self._name, name)

    def get(self, name: str, default: Any = None) -> Any:
        try:
            return self._conf.value(self._name, name)
        except cfg.NoSuchOptError:
            return default
