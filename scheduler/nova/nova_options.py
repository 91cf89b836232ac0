# SPDX-License-Identifier: Apache-2.0
"""The options of nova.conf that nova-scheduler reads, and what they are here.

Called by the modules beside it. Most are found in the options here themselves, which have nova's names as aliases:
:func:`ours`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oslo_config import cfg

#: (section, name) in nova.conf → (group, name) here, where neither the name nor an alias says so.
_OTHERS: Mapping[tuple[str, str], tuple[str | None, str]] = {
    ("DEFAULT", "reserved_host_memory_mb"): ("nova", "reserved_host_memory_mb"),
    ("DEFAULT", "reserved_host_disk_mb"): ("nova", "reserved_host_disk_mb"),
    ("DEFAULT", "reserved_host_cpus"): ("nova", "reserved_host_cpus"),
    ("DEFAULT", "default_availability_zone"): (None, "default_availability_zone"),
    ("DEFAULT", "service_down_time"): (None, "service_down_time"),
    ("DEFAULT", "control_exchange"): ("nova", "exchange"),
}
#: Sections of which every option with the same name here is compared.
_ALIKE = ("metrics", "notifications")
#: Compared otherwise: by the names of the filters, and not at all.
_APART = (("filter_scheduler", "enabled_filters"), ("filter_scheduler", "available_filters"), ("scheduler", "workers"))
#: Options of nova-scheduler that change nothing here → (its default, why).
NOT_DONE: Mapping[tuple[str, str], tuple[str, str]] = {
    ("scheduler", "discover_hosts_in_cells_interval"): (
        "-1",
        "fleet-scheduler discovers no hosts: run nova-manage cell_v2 discover_hosts, by cron for instance",
    ),
    ("scheduler", "query_placement_for_routed_network_aggregates"): (
        "false",
        "routed networks are not looked up: servers may be put where their network's segment is not",
    ),
}
#: Options of nova-scheduler that need nothing here: casts are taken if they come, and requests say what is in placement.
NOT_NEEDED = (("filter_scheduler", "track_instance_changes"), ("filter_scheduler", "pci_in_placement"))
_SECTIONS = ("scheduler", "filter_scheduler", "metrics", "workarounds")


def ours(conf: cfg.ConfigOpts) -> dict[tuple[str, str], tuple[str | None, str]]:
    """Return (section, name) in nova.conf → (group, name) here, of all options that are compared by value."""
    found = dict(_OTHERS)
    for group, name, option in _registered(conf):
        for alias in option.deprecated_opts:
            if alias.group in _SECTIONS:
                found.setdefault((alias.group, alias.name or name), (group, name))
        if group in _ALIKE:
            found.setdefault((group, name), (group, name))
    return {key: value for key, value in found.items() if key not in _APART}


def unread(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a sentence for each option of nova-scheduler that is set in this configuration and does nothing here."""
    for (section, name), (default, why) in NOT_DONE.items():
        value = conf[section][name] if section in conf and name in conf[section] else None
        if value is not None and not is_default(value, default):
            yield f"[{section}] {name} = {value} does nothing here: {why}."


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Register the options that do nothing here, so that one that is set is named at start."""
    for section, options in list_opts():
        conf.register_opts(options, group=section)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return the options of nova.conf that do nothing here: a copied section has them, and they are no mistakes."""
    found: dict[str, list[cfg.Opt]] = {}
    for (section, name), (_default, why) in NOT_DONE.items():
        found.setdefault(section, []).append(cfg.StrOpt(name, help=f"Of nova-scheduler. It does nothing here: {why}."))
    for section, name in NOT_NEEDED:
        found.setdefault(section, []).append(cfg.StrOpt(name, help="Of nova-scheduler. It is not needed here."))
    return list(found.items())


def is_default(value: str, default: str) -> bool:
    """Return True if a value of an option that does nothing here changes nothing in nova either."""
    return is_equal(value, default == "true" if default in ("true", "false") else default)


def is_equal(text: str, value: object) -> bool:
    """Compare a value of a file with a parsed one."""
    if isinstance(value, bool):
        return (text.strip().lower() in ("1", "true", "yes", "on")) == value
    if isinstance(value, list):
        return {each.strip() for each in text.split(",") if each.strip()} == {str(each) for each in value}
    try:
        return float(text) == float(str(value))
    except ValueError:
        return text.strip().lower() == str("" if value is None else value).lower()


def _registered(conf: cfg.ConfigOpts) -> Iterator[tuple[str | None, str, cfg.Opt]]:
    for name, each in conf._opts.items():
        yield None, name, each["opt"]
    for group, options in conf._groups.items():
        for name, each in options._opts.items():
            yield group, name, each["opt"]
