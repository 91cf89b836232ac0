# SPDX-License-Identifier: Apache-2.0
"""One storage backend: its driver, and the report of its pools.

:mod:`volume_agent.main` makes it, and all work on the backend receives it.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self, TypeVar

from oslo_config import cfg
from oslo_log import log as logging

from fleet import errors
from fleet.agent import commands, host_names, time_limit
from fleet.context import new_context
from fleet.json_codec import JSONObject
from fleet.objects import PoolReport, Volume, pool_report
from volume_agent import conf as volume_conf
from volume_agent import drivers
from volume_agent.drivers.base import VolumeDriver

LOG = logging.getLogger(__name__)
Answer = TypeVar("Answer")
#: Options whose keys are names of pools.
_POOLS = ("directory_pools", "lvm_pools", "fake_pools")
_HANGS = "its driver does not answer: its storage hangs"


@dataclasses.dataclass(frozen=True)
class Policy:
    """The configuration of the pools of a backend."""

    backend_name: str
    zone: str
    reserved_percentage: int = 0
    max_over_subscription_ratio: str = "20.0"
    filter_function: str | None = None
    goodness_function: str | None = None
    extra_capabilities: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, options: Any, backend: str, zone: str) -> Self:
        return cls(
            backend_name=options.volume_backend_name or backend,
            zone=options.backend_availability_zone or zone,
            reserved_percentage=options.reserved_percentage,
            max_over_subscription_ratio=options.max_over_subscription_ratio,
            filter_function=options.filter_function,
            goodness_function=options.goodness_function,
            extra_capabilities=options.extra_capabilities,
        )

    def of_pool(self) -> JSONObject:
        """Return capabilities of each pool. A driver's own value of these keys comes first, but for the reserve."""
        functions = {"filter_function": self.filter_function, "goodness_function": self.goodness_function}
        return {
            "volume_backend_name": self.backend_name,
            "max_over_subscription_ratio": self.max_over_subscription_ratio,
            "reserved_percentage": self.reserved_percentage,
            **{name: text for name, text in functions.items() if text},
        }


class Backend:
    """``name`` is ``machine@section``. The lock guards the set of strays, and the copies under way.

    :param answer_s: seconds in which the driver must return what it has. None: no limit, and no thread
    """

    def __init__(self, name: str, driver: VolumeDriver, policy: Policy, answer_s: float | None = None) -> None:
        self.name = name
        self.driver = driver
        self._policy = policy
        self._answer_s = answer_s
        self._asking: dict[str, time_limit.Asking] = collections.defaultdict(time_limit.Asking)
        self._lock = threading.Lock()
        self._strays: frozenset[str] = frozenset()
        self._copies: dict[str, Volume] = {}
        #: Why the backend cannot be used; "" if it can.
        self.problem = "it has not reported yet"
        #: Why nothing may be made on the backend: its last comparison with the ledger has failed. "" if it succeeded.
        self.unready = ""

    def set_strays(self, uuids: Collection[str]) -> None:
        """Count these volumes as foreign: the ledger does not have them here."""
        with self._lock:
            self._strays = frozenset(uuids)

    def is_stray(self, uuid: str) -> bool:
        with self._lock:
            return uuid in self._strays

    def adopt(self, uuid: str) -> None:
        """The ledger has this volume here now: what an earlier attempt has left is no longer foreign."""
        with self._lock:
            self._strays -= {uuid}

    @contextlib.contextmanager
    def copying(self, volume: Volume) -> Iterator[None]:
        """The body copies a volume to the pool that it holds."""
        with self._lock:
            self._copies[volume.uuid] = volume
        try:
            yield
        finally:
            with self._lock:
                del self._copies[volume.uuid]

    def copied(self) -> dict[str, int]:
        """Return by uuid how much is copied of the volumes whose copies are under way, in per cent."""
        with self._lock:
            under_way = list(self._copies.values())
        found: dict[str, int] = {}
        for volume in under_way:
            assert volume.held_pool is not None, "the ledger has given the volume its destination"
            try:
                percent = self.driver.copied_percent(volume, volume.held_pool)
            except Exception as failure:
                # The copy may not have begun, or may be over by now. A driver's bug hides no other copy.
                LOG.debug("It is not known how much of volume %s is copied: %s", volume.uuid, failure)
                continue
            if percent is not None:
                found[volume.uuid] = percent
        return found

    @property
    def hangs(self) -> bool:
        """True while the driver owes an answer: its storage may be away."""
        return any(each.is_overdue for each in list(self._asking.values()))

    def ask(self, purpose: str, question: Callable[[], Answer]) -> Answer:
        """Return the answer of the driver. One thread at a time asks for a purpose, and one waits for the driver.

        A file system that is away keeps the callers of the driver waiting without end, and no other backend of the process
        may wait with them.

        :raises TimeoutError: it does not answer in time, or owes an earlier answer
        """
        try:
            return self._asking[purpose].ask(new_context(), self._answer_s, question)
        except time_limit.Overrun:
            raise TimeoutError(_HANGS) from None

    def report(self) -> list[PoolReport]:
        """Return a report of each pool.

        :raises OSError: the backend cannot be used now; errors.InvalidInput: its driver does not report pools in a list
        """
        if self.unready:
            raise OSError(self.unready)
        return self.ask("report", self._report)

    def _report(self) -> list[PoolReport]:
        stats = {**self._policy.of_pool(), **self.driver.stats()}
        allocated, more = self._allocated_gb(), self._policy.extra_capabilities
        reports = pool_report.flatten(self.name, stats, self._policy.zone)
        return [_with(each, **{**more, "allocated_capacity_gb": allocated.get(each.pool, 0)}) for each in reports]

    def _allocated_gb(self) -> dict[str, int]:
        """Return by pool the sum of the sizes of the ledger's volumes."""
        with self._lock:
            strays = self._strays
        found: dict[str, int] = {}
        for stored in self.driver.volumes():
            if stored.uuid not in strays:
                found[stored.pool] = found.get(stored.pool, 0) + stored.size_gb
        return found


def _with(report: PoolReport, **capabilities: object) -> PoolReport:
    return dataclasses.replace(report, capabilities={**report.capabilities, **capabilities})


def load(conf: cfg.ConfigOpts) -> list[Backend]:
    """Return the backends that the configuration names. :raises errors.ConfigError: errors.ClassNotFound:"""
    loaded = [_load(conf, section) for section in sections(conf)]
    taken: dict[str, str] = {}
    for backend in loaded:
        for place in backend.driver.places():
            if taken.setdefault(place, backend.name) != backend.name:
                reason = f"names {taken[place]} and {backend.name}, which both have {place}: give each its own pools"
                raise errors.ConfigError(option="enabled_backends", reason=reason)
    return loaded


def names(conf: cfg.ConfigOpts) -> list[str]:
    """Return ``machine@section`` of each backend. :raises errors.ConfigError:"""
    return [f"{conf.host}@{section}" for section in sections(conf)]


def sections(conf: cfg.ConfigOpts) -> Sequence[str]:
    """:raises errors.ConfigError:"""
    found = host_names.expand(conf.enabled_backends, "enabled_backends")
    for section in found:
        if "@" in section or "#" in section:
            raise errors.ConfigError(
                option="enabled_backends", reason=f"names {section!r}, which must not contain @ or #"
            )
    return found


def _require_names(option: str, names: Collection[str]) -> None:
    """:raises errors.ConfigError: a pool has a name that cannot be read out of ``machine@section#pool``"""
    for name in names:
        if "#" in name:
            raise errors.ConfigError(option=option, reason=f"names pool {name!r}, which must not contain #")


def _load(conf: cfg.ConfigOpts, section: str) -> Backend:
    options = volume_conf.options_of(conf, section)
    if not options.volume_driver:
        reason = f"is not set in [{section}] nor in [{volume_conf.DEFAULTS}]: choose directory, lvm or fake"
        raise errors.ConfigError(option="volume_driver", reason=reason)
    for option in _POOLS:
        _require_names(option, getattr(options, option))
    driver = drivers.driver_class(options.volume_driver)(options)
    policy = Policy.of(options, section, conf.storage_availability_zone)
    # Simulated storage does not hang, and there may be thousands of backends.
    return Backend(f"{conf.host}@{section}", driver, policy, None if driver.simulated else commands.QUICK_S)
