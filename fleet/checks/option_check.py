# SPDX-License-Identifier: Apache-2.0
"""Checks configuration files for misspelt, deprecated and doubtful options.

Daemons call it at start, and the commands that examine a configuration.
"""

from __future__ import annotations

import collections
import dataclasses
import difflib
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata

import oslo_messaging
from oslo_config import cfg

from fleet.checks import file_modes, findings
from fleet.checks.findings import Finding
from fleet.db.connection.loopback import is_loopback
from fleet.rpc.rabbit import broker

CHECK = "options"
#: Sections whose options are those of the chosen plugin of keystoneauth.
_OF_PLUGINS = ("placement", "keystone_authtoken")
#: Sections of nova.conf, whose names are nova's of today.
_OF_NOVA = ("scheduler", "filter_scheduler", "workarounds")
#: The section that declares the options of each storage backend, and an option that sections of backends have, unless
#: they leave it to the defaults.
_BACKENDS, _OF_BACKENDS = "backend_defaults", "volume_driver"
#: Libraries whose options may be in the files, besides those of every ``fleet`` namespace.
_LIBRARIES = ("oslo.db", "oslo.log", "oslo.messaging", "oslo.policy", "oslo.reports")


@dataclasses.dataclass(frozen=True)
class Known:
    """Options by section and name, and deprecated names with the options that replace them."""

    options: Mapping[str, Mapping[str, cfg.Opt]]
    aliases: Mapping[tuple[str, str], str]


def known() -> Known:
    """Return all options of this program and of the libraries it configures."""
    options: dict[str, dict[str, cfg.Opt]] = collections.defaultdict(dict)
    aliases = {}
    for section, opt in _declared():
        options[section][opt.dest] = opt
        for old in opt.deprecated_opts:
            name = (old.group or section, _dest(old.name or opt.dest))
            aliases[name] = f"[{section}] {opt.dest}"
    return Known(options, aliases)


def _declared() -> Iterator[tuple[str, cfg.Opt]]:
    for entry in metadata.entry_points(group="oslo.config.opts"):
        if entry.name in _LIBRARIES or entry.name.split(".")[0] == "fleet":
            for group, opts in entry.load()():
                section = "DEFAULT" if group is None else getattr(group, "name", group)
                for opt in opts:
                    yield section, opt


def config_files(conf: cfg.ConfigOpts) -> list[str]:
    """Return the files that ``conf`` was read from, in order of increasing priority."""
    in_directories = [sorted(str(file) for file in pathlib.Path(each).glob("*.conf")) for each in conf.config_dir or []]
    return list(conf.config_file or []) + [file for files in in_directories for file in files]


def check(files: Sequence[str], options: Known | None = None) -> list[Finding]:
    """Return a finding for each mistake in ``files``, or one good finding."""
    options = options or known()
    found = [each for file in files for each in _check_file(file, options)]
    return found or [findings.good(CHECK, f"{', '.join(files) or 'no file'}: all options are known and current")]


def _check_file(file: str, options: Known) -> Iterator[Finding]:
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(file, sections).parse()
    except (OSError, cfg.ParseError) as unreadable:
        yield findings.bad(CHECK, f"{file}: {unreadable}", "Correct the file.")
        return
    secret = {(section, name) for section, opts in options.options.items() for name, opt in opts.items() if opt.secret}
    yield from file_modes.check(file, sections, secret)
    lines = sections.get("DEFAULT", {}).get("enabled_backends", [])
    backends = {name.strip() for line in lines for name in line.split(",")}
    for section, names in sections.items():
        if section in _OF_PLUGINS:
            continue
        kind = _BACKENDS if _OF_BACKENDS in names or section in backends else section
        for name in names:
            yield from _check_option(file, section, _dest(name), options, kind)


def _check_option(file: str, section: str, name: str, options: Known, kind: str) -> Iterator[Finding]:
    """:param kind: the section that declares the options of ``section``"""
    opt = options.options.get(kind, {}).get(name)
    if opt is not None:
        if opt.deprecated_for_removal:
            yield findings.doubtful(
                CHECK, f"{file}: [{section}] {name} is deprecated", opt.deprecated_reason or "Remove it."
            )
    elif (section, name) in options.aliases and section in _OF_NOVA:
        return  # nova's own name: a section of nova.conf may be copied
    elif (section, name) in options.aliases:
        current = options.aliases[section, name]
        yield findings.doubtful(CHECK, f"{file}: [{section}] {name} is an older name", f"Write {current} instead.")
    elif kind not in options.options:
        fix = "Correct the name of the section, unless a plugin of yours reads it."
        yield findings.doubtful(CHECK, f"{file}: [{section}] {name}: there is no such section", fix)
    else:
        meant = _meant(kind, section, name, options)
        yield findings.doubtful(CHECK, f"{file}: [{section}] {name}: there is no such option", meant)


def _meant(kind: str, section: str, name: str, options: Known) -> str:
    """Name the most similar option, of the same section if it has one.

    :param kind: the section whose options ``section`` has; another one for a storage backend
    """
    elsewhere = {each: other for other, opts in options.options.items() for each in opts}
    for places in (dict.fromkeys(options.options[kind], section), elsewhere):
        like = difflib.get_close_matches(name, places, n=1)
        if like:
            return f"It has no effect; is [{places[like[0]]}] {like[0]} meant?"
    return "It has no effect, unless a plugin of yours reads it: remove it."


def _dest(name: str) -> str:
    return name.replace("-", "_")


def contradictions(conf: cfg.ConfigOpts, with_database: bool = True) -> list[Finding]:
    """Return options whose values are valid but contradict each other."""
    found = []
    location = conf.get_location("service_down_time")
    if location is not None and location.location is cfg.Locations.set_override:
        text = f"service_down_time is not larger than report_interval: {conf.service_down_time} s is used instead"
        found.append(findings.doubtful(CHECK, text, "Let service_down_time be several times report_interval."))
    url = oslo_messaging.TransportURL.parse(conf)
    location = conf.get_location("transport_url")
    is_set = location is not None and location.location is not cfg.Locations.opt_default
    if is_set and not url.hosts and url.transport == "rabbit":
        found.append(
            findings.doubtful(CHECK, "transport_url names no host: a broker on this machine is used", "Name it.")
        )
    if with_database:
        found += _database(conf, url.transport)
    return found + _open_lines(conf, url)


def _open_lines(conf: cfg.ConfigOpts, url: oslo_messaging.TransportURL) -> list[Finding]:
    """Return connections to other machines that are not encrypted."""
    found = []
    far = [host.hostname for host in url.hosts if not is_loopback(host.hostname)]
    if far and url.transport == "rabbit" and not broker.has_tls(conf):
        text = f"the broker on {', '.join(far)} is reached without TLS: passwords and orders can be read on the way"
        fix = "Set [oslo_messaging_rabbit] ssl = true, and the port of the broker's TLS listener in transport_url."
        found.append(findings.doubtful("tls", text, fix))
    if conf.database.connection:
        # Here, because an agent has no database, and SQLAlchemy would take a third of its memory.
        from fleet.db.connection import tls

        weak = tls.weakness(conf.database.connection)
        found += [findings.doubtful("tls", *weak)] if weak else []
    return found


def _database(conf: cfg.ConfigOpts, transport: str) -> list[Finding]:
    connection = conf.database.connection
    if not connection:
        return [findings.bad(CHECK, "[database] connection is not set", "Name the database of the conductor.")]
    if connection.startswith("sqlite") and transport == "rabbit":
        text = "[database] connection is a SQLite file: all conductors and schedulers must be on this machine"
        return [findings.doubtful(CHECK, text, "Use PostgreSQL or MariaDB for more than a trial.")]
    return []
