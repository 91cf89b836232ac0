# SPDX-License-Identifier: Apache-2.0
"""Chooses the API version of each message: that of ``[upgrade_levels]``, or the oldest that a live receiver speaks.

Called by :mod:`fleet.rpc.clients.api` for each message.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from oslo_config import cfg, types
from oslo_log import log as logging

from fleet.rpc import versions

LOG = logging.getLogger(__name__)

GROUP = "upgrade_levels"
AUTO = "auto"
#: Seconds for which a process without heartbeats sends nothing as new as a version that a service has refused.
REFUSED_S = 60.0


#: nova's values for these options; fleet's API has version numbers of its own.
_NOVA_RELEASES = (
    *(
        "grizzly",
        "havana",
        "icehouse",
        "juno",
        "kilo",
        "liberty",
        "mitaka",
        "newton",
        "ocata",
        "pike",
        "queens",
        "rocky",
    ),
    *("stein", "train", "ussuri", "victoria", "wallaby", "xena", "yoga", "zed", "antelope", "bobcat", "caracal"),
    *("dalmatian", "epoxy", "flamingo"),
)


class _Version(types.String):
    """An option type: one of the versions. A release name of nova is refused with the reason."""

    def __call__(self, value: object) -> str:
        if str(value).lower() in _NOVA_RELEASES:
            raise ValueError(
                f"{value} is a release name of nova. Only versions of fleet's own API count here: "
                f"{', '.join(self.choices or ())}"
            )
        return super().__call__(value)


def _option(topic: str) -> cfg.Opt:
    known = [(each, "Send no message that is newer than this.") for each in versions.accepted(topic)]
    automatic = f"Send no message that is newer than the oldest live {topic} understands, by the services' records."
    return cfg.Opt(
        topic,
        type=_Version(choices=[(AUTO, automatic), *known]),
        default=AUTO,
        mutable=True,
        help=f"The newest version of the {topic}'s RPC API in which messages are sent. While services of two releases run, "
        "the new ones must not send messages that the old ones cannot read. Arguments that only the newer version has are "
        "left out. A request that needs a newer version is refused with an error that says so. Choose a version only if "
        "'auto' does not do what you want. 'fleet service list --long' shows the version of each service.",
    )


OPTS = [_option(topic) for topic in versions.CURRENT]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[object, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]


class Pins:
    """The versions of one process, shared by all its clients. Without an entry, a client sends the newest version until
    it is refused.

    A daemon is told with each of its heartbeats what services speak, and sends the oldest version from a refusal until then.
    Other processes (``fleet-api``, commands) try what is older than the refused version, and a while later the newest again.

    The mappings are replaced as a whole, so other threads may read them at any time.
    """

    def __init__(self, conf: cfg.ConfigOpts, clock: Callable[[], float] = time.monotonic) -> None:
        self._conf = conf
        self._clock = clock
        self._is_told = False
        self._found: Mapping[str, str] = {}
        #: The newest version that is not refused, by topic, and until when that counts.
        self._refused: Mapping[str, tuple[str, float]] = {}
        self._said: set[tuple[str, str]] = set()

    @property
    def lowest(self) -> Mapping[str, str]:
        """The lowest version by topic, as far as it is known."""
        return self._found

    def cap(self, topic: str) -> str:
        """Return the newest version that may be sent to ``topic``."""
        pin = self.pin(topic)
        if pin != AUTO:
            return pin
        cap = self._automatic(topic, self._found)
        below, until = self._refused.get(topic, (cap, math.inf))
        return versions.lower(topic, cap, below) if self._clock() < until else cap

    def pin(self, topic: str) -> str:
        """Return the configured value: a version, or ``auto``."""
        return self._conf[GROUP][topic]

    def learn(self, lowest: Mapping[str, str] | None) -> None:
        """Store the oldest versions that live services speak, by topic.

        :param lowest: None: the conductor that was asked is too old to know; then the other services may be, too
        """
        found = versions.OLDEST if lowest is None else lowest
        for topic in versions.CURRENT:
            before, now = self._automatic(topic, self._found), self._automatic(topic, found)
            if self.pin(topic) == AUTO and before != now:
                LOG.info("Version %s is sent to the %s from now on: its oldest live service knows it", now, topic)
        self._is_told = True
        self._found, self._refused = dict(found), {}
        self._said.clear()

    def refused(self, topic: str, method: str, version: str) -> bool:
        """Handle a server's refusal of ``version``. Return True if the call may be repeated in an older version."""
        pin, oldest = self.pin(topic), versions.OLDEST[topic]
        again = pin == AUTO and versions.parse(version) > versions.parse(oldest)
        if (topic, version) not in self._said:
            self._said.add((topic, version))
            instead = f"{oldest} is sent until all are newer" if self._is_told else "An older one is tried"
            advice = instead if again else "Name an older one, or 'auto'"
            LOG.warning(
                "A %s refuses %s in version %s of its API ([upgrade_levels] %s = %s). %s; "
                "'fleet service list --long' shows what each speaks.",
                *(topic, method, version, topic, pin, advice),
            )
        if again and self._is_told:
            self._found = {**self._found, topic: oldest}
        elif again:
            self._refused = {**self._refused, topic: (versions.before(version), self._clock() + REFUSED_S)}
        return again

    @staticmethod
    def _automatic(topic: str, found: Mapping[str, str]) -> str:
        current = versions.CURRENT[topic]
        return versions.lower(topic, current, found.get(topic, current))
