# SPDX-License-Identifier: Apache-2.0
"""Options shared by all daemons and tools, and the function that loads a configuration.

Each program calls it first.
"""

from __future__ import annotations

import configparser
import contextlib
import logging as standard_logging
import math
import os
import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any

import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors, failpoints, tolerance_conf
from fleet.db.connection import options as db_options
from fleet.hardware import conf as hardware_conf
from fleet.rpc import nova_broker, pins, versions
from fleet.rpc.rabbit import conf as rabbit_conf
from fleet.rpc.trust import signing
from fleet.telemetry import conf as telemetry_conf
from fleet.telemetry import decisions_conf, plain_log, shadow_conf

DEFAULT_CONFIG_FILE = "/etc/fleet/fleet.conf"
#: Environment variable that names the command line tools' file without --config-file; then the default is used.
CONFIG_FILE_VARIABLE = "FLEET_CONFIG_FILE"

COMMON_OPTS = [
    cfg.HostAddressOpt(
        "my_ip",
        default="127.0.0.1",
        help="Address of this machine, as other hosts reach it. The agent reports it as the host's address (host_ip), "
        "which SimpleCIDRAffinityFilter reads.",
    ),
    cfg.StrOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<hostname>",
        help="Name of this host. It is part of the agent's queue and of its rows, so no two agents may have the same. Nor "
        "may two schedulers, such as replicas that share the name of their machine: they would have one service record. An "
        "agent that serves several hosts gets their names from hosts.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        min=1,
        help="Seconds between two heartbeats of a daemon. Shorter intervals detect dead hosts sooner and cost more "
        "messages. Related: service_down_time.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        min=1,
        help="Seconds without a heartbeat after which a service counts as down. The scheduler places nothing on a host "
        "that is down. Must be larger than report_interval; otherwise 2.5 times report_interval is used.",
    ),
    cfg.FloatOpt(
        "max_clock_skew",
        default=5.0,
        min=0.0,
        help="Seconds by which the clock of a daemon's machine may differ from the database's. Deadlines, leases and "
        "liveness use the database's clock only. A daemon whose clock differs by more logs one ERROR, is not ready in "
        "/healthz, and does not sweep or evacuate. 0 turns the check off.",
    ),
    cfg.IntOpt(
        "stop_timeout",
        default=30,
        min=1,
        help="Seconds that a daemon may take to end after SIGTERM. It accepts no new work, gives back work that it has not "
        "begun, and finishes the rest. Work that is unfinished after this time is interrupted; another process, or "
        "the next agent of the host, takes it up.",
    ),
    cfg.IntOpt(
        "long_rpc_timeout",
        default=180,
        min=1,
        help="Seconds that a long call (select_destinations) may take in total. Meanwhile the server must send a sign of "
        "life every rpc_response_timeout seconds.",
    ),
    cfg.IntOpt(
        "scheduler_max_attempts",
        default=3,
        min=1,
        deprecated_opts=[cfg.DeprecatedOpt("max_attempts", group="scheduler")],
        help="How many hosts are tried for one instance before it ends in ERROR. 1 turns retries off. A host that did not "
        "begin the build does not count: its agent had no queue, was stopping, or refused the claim (related: "
        "[conductor] claim_refusals). 'fleet server show' lists every attempt.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Zone of hosts that are in no aggregate with a zone. Conductors and schedulers need the same value. Related: "
        "default_schedule_zone.",
    ),
    cfg.BoolOpt(
        "scheduler_tracks_instance_changes",
        default=True,
        help="Whether agents send the schedulers hints about instances that start and end. The change feed has the same "
        "information, at most a moment later. Set it to false to save messages, unless you use caching_scheduler. "
        "Read by the agents.",
    ),
]

#: Log lines of a request have its id, the instance, the attempt and the host.
LOG_FORMAT = (
    "%(asctime)s.%(msecs)03d %(process)d %(levelname)s %(name)s [%(request_id)s %(build)s] %(instance)s%(message)s"
)
#: oslo.config replaces $NAME in a value by another option.
_UNKNOWN_NAMES = (cfg.NoSuchOptError, cfg.NoSuchGroupError, cfg.TemplateSubstitutionError)
#: A complaint of oslo.config about a value: where it is from, the file or the variable, and the reason.
_COMPLAINT = re.compile(
    r"Value for option \S+ from LocationInfo\(location=<Locations\.(\w+): .*?>, detail='(.*?)'\) is not valid: (.*)",
    re.DOTALL,
)
#: What Python says of text that is no number.
_NO_NUMBER = {
    "invalid literal for int() with base 10:": "must be a whole number, got",
    "could not convert string to float:": "must be a number, got",
}
NOISY = ["amqp=WARN", "oslo.messaging=INFO", "oslo_messaging=INFO", "sqlalchemy=WARN", "alembic=WARN", "cotyledon=WARN"]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts([*COMMON_OPTS, *rabbit_conf.OPTIONS])
    hardware_conf.register_opts(conf)
    tolerance_conf.register_opts(conf)
    failpoints.register_opts(conf)
    telemetry_conf.register_opts(conf)
    pins.register_opts(conf)
    nova_broker.register_opts(conf)
    shadow_conf.register_opts(conf)
    decisions_conf.register_opts(conf)
    signing.register_opts(conf)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    parts = (
        hardware_conf,
        tolerance_conf,
        failpoints,
        telemetry_conf,
        pins,
        nova_broker,
        shadow_conf,
        decisions_conf,
        signing,
        db_options,
    )
    return [("DEFAULT", [*COMMON_OPTS, *rabbit_conf.OPTIONS]), *(each for part in parts for each in part.list_opts())]


def set_defaults() -> None:
    """Set this project's defaults of options of libraries; the generator of the sample configuration calls it, too."""
    levels = [each for each in NOISY if each not in logging.get_default_log_levels()]
    logging.set_defaults(
        logging_context_format_string=LOG_FORMAT, default_log_levels=logging.get_default_log_levels() + levels
    )
    oslo_messaging.set_transport_defaults(control_exchange="fleet")


def load_config(
    argv: Sequence[str],
    prog: str,
    description: str = "",
    register: Sequence = (),
    conf: cfg.ConfigOpts = cfg.CONF,
    setup_logging: bool = True,
) -> cfg.ConfigOpts:
    """Parse ``argv`` and the configuration files, and set up logging.

    :param register: functions that declare a service's own options on ``conf`` before the files are read
    :param setup_logging: False for the command line tools, which write to a person and not to the daemons' log
    :raises SystemExit: on a bad command line or file, after a one-line message
    """
    logging.register_options(conf)
    set_defaults()
    db_options.register_opts(conf)
    for register_opts_of in (register_opts, *register):
        register_opts_of(conf)
    try:
        conf(
            list(argv),
            project="fleet",
            prog=prog,
            description=description,
            version=f"{prog} {versions.release()}",
            default_config_files=_default_config_files(),
        )
        _read_all(conf)
    except cfg.ConfigFilesNotFoundError as missing:
        raise SystemExit(f"{prog}: {missing}") from None
    except IsADirectoryError as directory:
        raise SystemExit(f"{prog}: configuration file {directory.filename} is a directory, not a file") from None
    except UnicodeDecodeError:
        read = ", ".join(conf.config_file or ())
        raise SystemExit(f"{prog}: a configuration file is not a text file: {read or ' '.join(argv)}") from None
    except cfg.ConfigFilesPermissionDeniedError as denied:
        advice = f"name one of your own with --config-file or {CONFIG_FILE_VARIABLE}; a client may use --url instead"
        raise SystemExit(f"{prog}: {denied} (no permission to read); {advice}") from None
    except (cfg.ConfigFileParseError, cfg.ConfigFileValueError) as bad:
        raise SystemExit(f"{prog}: {bad}") from None
    if setup_logging:
        _setup_logging(conf, prog)
    _check_liveness(conf)
    try:
        failpoints.arm(conf)
    except errors.ConfigError as wrong:
        raise SystemExit(f"{prog}: {wrong.message}") from None
    return conf


def _setup_logging(conf: cfg.ConfigOpts, prog: str) -> None:
    """:raises SystemExit: after a one-line message"""
    levels = standard_logging.getLevelNamesMapping()
    for each in conf.default_log_levels:
        level = each.partition("=")[2]
        if level not in levels and not level.isdecimal():
            reason = f"default_log_levels has {each!r}, and needs LOGGER=LEVEL, such as amqp=WARN"
            raise SystemExit(f"{prog}: {reason}")
    try:
        logging.setup(conf, prog)
        plain_log.install()
    except OSError as unwritable:
        where = unwritable.filename or conf.log_file
        raise SystemExit(f"{prog}: the log cannot be written: {where}: {unwritable.strerror}") from None
    except logging.LogConfigError as wrong:
        reason = " ".join(str(wrong.err_msg).split())
        raise SystemExit(f"{prog}: log_config_append: {wrong.log_config}: {reason}") from None
    except Exception as wrong:
        # log_config_append may name any class, and any arguments of it.
        where = f"log_config_append: {conf.log_config_append}" if conf.log_config_append else "the log cannot be set up"
        raise SystemExit(f"{prog}: {where}: {wrong}") from None


def check_files(argv: Sequence[str], register: Sequence = ()) -> None:
    """Check that the configuration files that ``argv`` names can be read now, with all options.

    :raises cfg.Error:
    :raises SystemExit:
    """
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    for register_opts_of in (register_opts, *register):
        register_opts_of(conf)
    conf(list(argv), project="fleet", default_config_files=_default_config_files())
    _read_all(conf)
    if conf.log_config_append:
        _check_log_config(conf.log_config_append)


def _check_log_config(path: str) -> None:
    """:raises cfg.ConfigFileValueError: the file cannot be read, or lacks a section"""
    parser = configparser.ConfigParser(interpolation=None)
    try:
        with open(path) as file:
            parser.read_file(file)
    except OSError as unreadable:
        reason = unreadable.strerror or str(unreadable)
    except (configparser.Error, UnicodeDecodeError) as wrong:
        reason = " ".join(str(wrong).split())
    else:
        missing = [each for each in ("loggers", "handlers", "formatters") if not parser.has_section(each)]
        reason = f"it has no section [{missing[0]}]" if missing else ""
    if reason:
        raise cfg.ConfigFileValueError(f"log_config_append: {path}: {reason}")


def _read_all(conf: cfg.ConfigOpts) -> None:
    """Read all values now, because oslo.config checks a value when it is read.

    :raises cfg.ConfigFileValueError: see :func:`read_section`
    """
    for name in conf:
        group = _value(conf, name, "DEFAULT")
        if isinstance(group, Mapping):
            read_section(group, name)
    with contextlib.suppress(oslo_messaging.InvalidTransportURL):
        # The library registers its option when it reads it. A URL that it cannot use is reported with its first use.
        try:
            oslo_messaging.TransportURL.parse(conf)
        except _UNKNOWN_NAMES:
            raise _dollar("transport_url") from None
        except ValueError:
            # The library's sentence may repeat a part of the password.
            raise cfg.ConfigFileValueError(
                "Option [DEFAULT] transport_url is no URL such as rabbit://USER:PASSWORD@HOST:5672/; "
                "in a password write %2F for /, %23 for #, %3F for ?, %40 for @"
            ) from None


def read_section(options: Mapping[str, Any], section: str) -> None:
    """Read all values of a section now.

    :raises cfg.ConfigFileValueError: the message has the section, the option and its file. It has the value only where
        that cannot be a secret
    """
    for option in options:
        _value(options, option, section)


def _value(options: Mapping[str, Any], name: str, section: str) -> Any:
    shown = name if section == "DEFAULT" else f"[{section}] {name}"
    try:
        value = options[name]
    except _UNKNOWN_NAMES:
        raise _dollar(shown) from None
    except cfg.ConfigSourceValueError as bad:
        raise cfg.ConfigFileValueError(_in_words(section, name, str(bad))) from None
    if isinstance(value, float) and not math.isfinite(value):
        # Python reads "nan" and "inf" as numbers. All comparisons with NaN are false, also those of a minimum.
        raise cfg.ConfigFileValueError(f"{shown} must be a finite number, got {value}")
    return value


def _in_words(section: str, option: str, complaint: str) -> str:
    """Return a complaint of oslo.config without the names of its classes."""
    found = _COMPLAINT.fullmatch(complaint)
    if found is None:
        return f"Option [{section}] {option}: {complaint}"
    source, where, reason = found.groups()
    for python, words in _NO_NUMBER.items():
        reason = reason.replace(python, words)
    place = f"the environment variable {where}" if source == "environment" else where
    return f"Option [{section}] {option} in {place} is not valid: {reason}"


def _dollar(name: str) -> cfg.ConfigFileValueError:
    return cfg.ConfigFileValueError(
        f"{name} has a $ that is followed by the name of no option: write $$ for the character $, as in a password"
    )


def _default_config_files() -> list[str]:
    named = os.environ.get(CONFIG_FILE_VARIABLE)
    path = named or DEFAULT_CONFIG_FILE
    return [path] if named or os.path.exists(path) else []


def _check_liveness(conf: cfg.ConfigOpts) -> None:
    if conf.service_down_time <= conf.report_interval:
        raised = int(conf.report_interval * 2.5)
        logging.getLogger(__name__).warning(
            "service_down_time %s is not larger than report_interval %s: using %s",
            conf.service_down_time,
            conf.report_interval,
            raised,
        )
        conf.set_override("service_down_time", raised)
