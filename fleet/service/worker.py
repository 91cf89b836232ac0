# SPDX-License-Identifier: Apache-2.0
"""Daemon life: start, serve, heartbeat, reload, bounded stop. One worker process is one :class:`Worker`."""

from __future__ import annotations

import dataclasses
import functools
import os
import threading
import uuid
from collections.abc import Callable, Sequence
from concurrent import futures

import cotyledon
import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging
from oslo_reports import guru_meditation_report
from oslo_reports import opts as report_opts

from fleet import errors
from fleet.checks import option_check
from fleet.db import failures
from fleet.rpc import backoff, versions
from fleet.rpc.rabbit import broker_refusals
from fleet.service.periodic import Runnable
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: Longer than stop_timeout by this, a process that cannot end by itself is killed.
KILL_MARGIN_S = 5
#: For a process that has served nothing yet to end by itself.
UNSERVED_STOP_S = 2.0
#: What the database and the broker raise when they are away, or not as they must be.
_AWAY = (
    errors.FleetError,
    *failures.RAISED,
    oslo_messaging.MessagingException,
    *broker_refusals.REFUSALS,
    OSError,
)
#: Raises if the configuration files cannot be used.
Check = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Process:
    """What one worker process runs: ``watching`` it at once, and what ``serving`` makes as soon as that is possible.

    ``started`` is set when all of it runs.
    """

    watching: Sequence[Runnable]
    serving: Callable[[], Sequence[Runnable]]
    started: threading.Event = dataclasses.field(default_factory=threading.Event)


class Worker(cotyledon.Service):
    """One worker process, made after the fork.

    A database or a broker that is away when the daemon starts is waited for; its health page says so meanwhile.

    :param build: given the number of this worker among those of the daemon, from 0
    :param check: raises if the configuration files cannot be used; called before they are read anew
    """

    name = "fleet"

    def __init__(
        self, worker_id: int, conf: cfg.ConfigOpts, daemon: str, build: Callable[[int], Process], check: Check
    ) -> None:
        super().__init__(worker_id)  # type: ignore[arg-type] # a NewType of int
        self._conf = conf
        self._number = worker_id
        self._daemon = daemon
        self._build = build
        self._check = check
        self._servers: list[Runnable] = []
        self._process: Process | None = None
        self._stopping = threading.Event()

    def run(self) -> None:
        LOG.info("Starting %s", self._daemon)
        process = self._process = self._build(self._number)
        self._start(process.watching)
        threading.Thread(target=self._serve, args=(process,), name="start", daemon=True).start()

    def _start(self, servers: Sequence[Runnable]) -> None:
        """All of them, or none: what a failed try has started would hold its connections while the next one fails, too."""
        started: list[Runnable] = []
        try:
            for server in servers:
                server.start()
                started.append(server)
                self._servers.append(server)
        except BaseException:
            for server in started:
                server.stop()
                server.wait()
                self._servers.remove(server)
            raise

    def _serve(self, process: Process) -> None:
        """Until it is possible, with growing pauses."""
        pauses, said = backoff.Backoff(), rate_limited_log.RateLimit()
        while True:
            try:
                self._start(process.serving())
                break
            except _AWAY as failure:
                reason = (str(failure).strip() or type(failure).__name__).splitlines()[0]
            except Exception:
                LOG.exception("%s cannot start", self._daemon)
                os._exit(1)
            # Not while the failure is handled: oslo.log would tell it twice.
            pause_s, left_out = pauses.pause_s(), said.due(reason)
            if left_out is not None:
                LOG.warning("%s cannot serve yet, next try in %.1f s: %s", self._daemon, pause_s, reason)
            if self._stopping.wait(pause_s):
                return
        process.started.set()
        LOG.info("%s is ready", self._daemon)

    def terminate(self) -> None:
        """What has never served, because its broker was never reached, has nothing to bring to an end."""
        LOG.info("Stopping %s", self._daemon)
        self._stopping.set()
        stopping = threading.Thread(target=self._stop, name="stop", daemon=True)
        stopping.start()
        stopping.join(None if self._has_served() else UNSERVED_STOP_S)

    def _has_served(self) -> bool:
        if self._process is None or not self._process.started.is_set():
            return False
        # An agent starts at once, and serves when it has registered. (The watchdog's is a verdict, not an event.)
        ready = [getattr(server, "ready", None) for server in self._servers]
        return all(each.is_set() for each in ready if isinstance(each, threading.Event))

    def _stop(self) -> None:
        for server in list(self._servers):
            server.stop()
        # Side by side: each waits for what it still handles.
        with futures.ThreadPoolExecutor(max(len(self._servers), 1)) as waiters:
            list(waiters.map(lambda server: server.wait(), list(self._servers)))

    def reload(self) -> None:
        """SIGHUP: options that are marked mutable take their new values; nothing is restarted."""
        reread(self._conf, self._check)


def reread(conf: cfg.ConfigOpts, check: Check) -> None:
    """Read the configuration files again; oslo.config logs what has changed, and names what needs a restart.

    Files that cannot be used are refused whole.
    """
    try:
        check()
    except (cfg.Error, SystemExit) as bad:
        LOG.error("SIGHUP: the configuration is refused, and all options stay as they were: %s", bad)
        return
    changed = conf.mutate_config_files()
    LOG.info("SIGHUP: configuration files read again, %d options changed", len(changed))


def _report_on_signal(conf: cfg.ConfigOpts) -> None:
    """SIGUSR2 prints a Guru Meditation Report: threads with their stacks, configuration without secrets."""
    report_opts.set_defaults(conf)
    guru_meditation_report.TextGuruMeditation.setup_autorun(_Version(), conf=conf)


class _Version:
    """What the report wants to know of the program."""

    def product_string(self) -> str:
        return "fleet"

    def vendor_string(self) -> str:
        return "fleet"

    def version_string_with_package(self) -> str:
        return versions.release()


def launch(
    conf: cfg.ConfigOpts,
    name: str,
    build: Callable[[int], Process],
    workers: int = 1,
    check: Check = lambda: None,
) -> int:
    """Run the daemon until it is told to stop, and then ends within ``stop_timeout``; returns its exit status."""
    for finding in option_check.check(option_check.config_files(conf)):
        if finding.level:
            LOG.warning("%s. %s", finding.found, finding.fix)
    # Before the workers, which are copies: the signal may come to all processes of the daemon.
    _report_on_signal(conf)
    manager = cotyledon.ServiceManager(graceful_shutdown_timeout=conf.stop_timeout + KILL_MARGIN_S)
    manager.add(Worker, workers, args=(conf, name, build, check))
    # Workers that are started later are copies of this process: it must know what they know.
    manager.register_hooks(on_reload=functools.partial(reread, conf, check))
    try:
        manager.run()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def new_incarnation() -> str:
    """Names one life of a process: a message from an earlier life of the same host is recognised by it."""
    return uuid.uuid4().hex
