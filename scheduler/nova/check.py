# SPDX-License-Identifier: Apache-2.0
"""``fleet-manage nova check``: what would change if fleet-scheduler took the place of nova-scheduler. Nothing is changed.

nova-scheduler starts from the hosts that placement offers for a request, and filters them. :mod:`scheduler.nova.comparison`
compares what is left with the hosts that the filters here let through.
"""

from __future__ import annotations

import configparser
import pathlib
from collections.abc import Iterator, Sequence

from oslo_config import cfg

from fleet import errors
from fleet.checks import findings
from fleet.checks.findings import Finding
from fleet.db.nova import api_queries
from fleet.db.nova.database import NovaDatabase
from scheduler.compute import conf as compute_conf
from scheduler.compute.drivers import loading
from scheduler.compute.drivers.driver import Scheduler
from scheduler.loading import named_classes
from scheduler.nova import comparison, nova_options, service
from scheduler.nova import conf as nova_conf
from scheduler.nova.nova_filters import NovaFilters
from scheduler.nova.placement import Placement

#: What nova's enabled_filters is if nova.conf does not set it.
_NOVAS_FILTERS = (
    "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,"
    "ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter"
)
#: Filters of the defaults here that nova's users do not have: it does their work otherwise.
_OURS_ONLY = (
    *("BridgeFilter", "GuestCpuFilter", "FailureDomainFilter", "RetryFilter", "AvailabilityZoneFilter"),
    *("RamFilter", "DiskFilter", "CoreFilter"),
)


def check(
    conf: cfg.ConfigOpts, nova_file: str | None, nova_python: str | None, requests: int, servers: Sequence[str]
) -> list[Finding]:
    """Compare options and requests.

    :param nova_file: path of nova.conf
    :param nova_python: interpreter that nova is installed for; its filters run if it is given
    :param requests: how many of the newest requests are compared, if ``servers`` is empty
    :param servers: uuids of servers whose requests are compared
    """
    compute_conf.register_opts(conf)
    nova_conf.register_opts(conf)
    service.adapt(conf)
    try:
        service.check(conf)
    except errors.FleetError as wrong:
        return [findings.bad("options", wrong.message, "Correct it.")]
    found = list(_options(conf, nova_file)) if nova_file else []
    api = service.open_api(conf)
    try:
        driver = service.build_driver(conf, api)
        driver.host_manager.refresh()
        found += _hosts(driver)
        placement = Placement.from_conf(conf)
        found += [findings.doubtful("placement", each, "See docs/nova.md.") for each in placement.out_of_scope()]
        nova = NovaFilters(nova_python, nova_file) if nova_python and nova_file else None
        return found + list(comparison.compare(driver, placement, _requests(api, requests, servers), nova))
    except errors.FleetError as failure:
        return [*found, findings.bad("access", failure.message, "Check [nova], [placement] and the grants.")]
    finally:
        api.dispose()


def _options(conf: cfg.ConfigOpts, path: str) -> Iterator[Finding]:
    """Compare with nova.conf. A value that it does not set is not compared."""
    parser = configparser.ConfigParser(strict=False, interpolation=None, default_section="\0")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    try:
        parser.read_string(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, configparser.Error) as unreadable:
        # An error of the parser repeats lines, which may have a password.
        problem = getattr(unreadable, "strerror", None) or type(unreadable).__name__
        yield findings.bad("options", f"{path} cannot be read: {problem}", "Name the file that nova-scheduler reads.")
        return
    for (section, name), (group, ours) in sorted(nova_options.ours(conf).items()):
        theirs = parser.get(section, name, fallback=None)
        here = (conf[group] if group else conf)[ours]
        if theirs is not None and not nova_options.is_equal(theirs, here):
            where = f"[{group or 'DEFAULT'}] {ours}"
            yield findings.doubtful(
                "options", f"nova has [{section}] {name} = {theirs}, here it is {here}", f"Set {where}."
            )
    enabled = parser.get("filter_scheduler", "enabled_filters", fallback=_NOVAS_FILTERS)
    yield from _filters(conf, {name.strip() for name in enabled.split(",") if name.strip()})
    for (section, name), (default, why) in nova_options.NOT_DONE.items():
        theirs = parser.get(section, name, fallback=default)
        if not nova_options.is_default(theirs, default):
            yield findings.doubtful(
                "options",
                f"nova has [{section}] {name} = {theirs}, which does nothing here: {why}",
                "See docs/nova.md.",
            )


def _filters(conf: cfg.ConfigOpts, theirs: set[str]) -> Iterator[Finding]:
    # An entry may be a dotted path.
    ours = {name.rpartition(".")[2] for name in named_classes.entries(conf.scheduler_default_filters)}
    missing, more = sorted(theirs - ours), sorted(ours - theirs - set(_OURS_ONLY))
    known = loading.available_filters(conf)
    nowhere = [name for name in missing if name not in known]
    if nowhere:
        fix = "Set scheduler_additional_filters to their paths, or do without them."
        yield findings.doubtful("filters", f"nova has {', '.join(nowhere)}, which are not available here", fix)
    missing = [name for name in missing if name in known]
    if missing:
        fix = "Add them to scheduler_default_filters; for filters of your own, set scheduler_additional_filters."
        yield findings.doubtful("filters", f"only nova has {', '.join(missing)}", fix)
    if more:
        yield findings.doubtful("filters", f"only here are {', '.join(more)}", "Remove them, unless you want them.")
    if not missing and not more and not nowhere:
        yield findings.good("filters", "the same as in nova, and those for capacity and zones")


def _hosts(driver: Scheduler) -> Iterator[Finding]:
    known, up = len(comparison.providers(driver)), len(driver.hosts_up())
    text = f"{known} compute nodes are known, {up} hosts are up"
    yield findings.good("hosts", text) if up else findings.bad("hosts", text, "Is nova-compute running?")


def _requests(api: NovaDatabase, newest: int, servers: Sequence[str]) -> list[tuple[str, object]]:
    if not servers:
        return api.read(api_queries.newest_request_specs, newest)
    found = [(server, api.read(api_queries.request_spec, server)) for server in servers]
    for server, spec in found:
        if spec is None:
            raise errors.InvalidInput(field="--server", reason=f"is {server}, and nova has no request spec of it")
    return found
