# SPDX-License-Identifier: Apache-2.0
"""Runs a daemon: worker processes that start, serve, reload and stop within a bound.

Called by :mod:`fleet.service`.
"""

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
from fleet.rpc import backoff, notifier, versions
from fleet.rpc.rabbit import broker_refusals
from fleet.service.periodic import Runnable
from fleet.telemetry import rate_limited_log

LOG = logging.getLogger(__name__)

#: A process that has not ended this many seconds after stop_timeout is killed.
KILL_MARGIN_S = 5
#: Seconds for a process that has not served yet to end by itself.
UNSERVED_STOP_S = 2.0
#: Seconds between two looks whether an agent has begun.
READY_POLL_S = 0.2
#: Errors of a database or a broker that cannot be reached or refuses.
_AWAY = (
    errors.FleetError,
    oslo_messaging.MessagingException,
    *broker_refusals.REFUSALS,
    OSError,
)
#: Raises if the configuration files cannot be used.
Check = Callable[[], object]


@dataclasses.dataclass(frozen=True)
class Process:
    """The parts of one worker process: ``watching`` is started at once, the result of ``serving`` as soon as possible.

    ``started`` is set when all of it runs, and its agents have begun.
    """

    watching: Sequence[Runnable]
    serving: Callable[[], Sequence[Runnable]]
    started: threading.Event = dataclasses.field(default_factory=threading.Event)


class Worker(cotyledon.Service):
    """One worker process, created after the fork.

    If the database or the broker cannot be reached at start, the worker retries, and its health page shows the
    reason.

    :param build: receives the number of this worker in the daemon, from 0
    :param check: raises if the configuration files cannot be used; called before they are read again
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
        """Start all servers or none: servers of a failed try would keep their connections during the next try."""
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
        """Start serving; retry with growing pauses until it succeeds."""
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
            # Outside of the except clause: oslo.log would log the failure twice.
            pause_s, left_out = pauses.pause_s(), said.due(reason)
            if left_out is not None:
                LOG.warning("%s cannot serve yet, next try in %.1f s: %s", self._daemon, pause_s, reason)
            if self._stopping.wait(pause_s):
                return
        # Until then no queue of an agent answers a round trip, and the daemon is not stuck.
        while not self._is_ready():
            if self._stopping.wait(READY_POLL_S):
                return
        process.started.set()
        LOG.info("%s is ready", self._daemon)

    def terminate(self) -> None:
        """Stop. A worker that has never served stops after UNSERVED_STOP_S at most."""
        LOG.info("Stopping %s", self._daemon)
        self._stopping.set()
        stopping = threading.Thread(target=self._stop, name="stop", daemon=True)
        stopping.start()
        stopping.join(None if self._has_served() else UNSERVED_STOP_S)

    def _has_served(self) -> bool:
        if self._process is None or not self._process.started.is_set():
            return False
        return self._is_ready()

    def _is_ready(self) -> bool:
        # An agent starts at once and serves after its registration. (The watchdog's ``ready`` is a flag, not an
        # event.)
        ready = [getattr(server, "ready", None) for server in self._servers]
        return all(each.is_set() for each in ready if isinstance(each, threading.Event))

    def _stop(self) -> None:
        for server in list(self._servers):
            server.stop()
        # In parallel: each waits for messages that it still handles.
        with futures.ThreadPoolExecutor(max(len(self._servers), 1)) as waiters:
            list(waiters.map(lambda server: server.wait(), list(self._servers)))
        notifier.wait_until_sent()

    def reload(self) -> None:
        """SIGHUP: mutable options take their new values. Nothing is restarted."""
        reread(self._conf, self._check)


def reread(conf: cfg.ConfigOpts, check: Check) -> None:
    """Read the configuration files again. oslo.config logs the changes, and names options that need a restart.

    If a file cannot be used, no option changes.
    """
    try:
        check()
    except (cfg.Error, SystemExit) as bad:
        LOG.error("SIGHUP: the configuration is refused, and all options stay as they were: %s", bad)
        return
    try:
        changed = conf.mutate_config_files()
    except Exception:
        # oslo.log has read log_config_append, which may name any class. The failure would end the worker, and lose what it
        # works on.
        LOG.exception("SIGHUP: the log cannot be set up anew; options may have changed")
        return
    LOG.info("SIGHUP: configuration files read again, %d options changed", len(changed))


def _report_on_signal(conf: cfg.ConfigOpts) -> None:
    """SIGUSR2 prints a Guru Meditation Report: threads with their stacks, and the configuration without secrets."""
    report_opts.set_defaults(conf)
    guru_meditation_report.TextGuruMeditation.setup_autorun(_Version(), conf=conf)


class _Version:
    """The program's name and version in the report."""

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
    """Run the daemon until it receives a signal; it stops within ``stop_timeout``. Return its exit status."""
    for finding in option_check.check(option_check.config_files(conf)):
        if finding.level:
            LOG.warning("%s. %s", finding.found, finding.fix)
    # Before the workers are forked: the signal may be sent to all processes of the daemon.
    _report_on_signal(conf)
    manager = cotyledon.ServiceManager(graceful_shutdown_timeout=conf.stop_timeout + KILL_MARGIN_S)
    manager.add(Worker, workers, args=(conf, name, build, check))
    # Workers that are started later are copies of this process, so it must read the files, too.
    manager.register_hooks(on_reload=functools.partial(reread, conf, check))
    try:
        manager.run()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else 1
    return 0


def new_incarnation() -> str:
    """Return an id of one run of a process. It identifies messages of an earlier run of the same host."""
    return uuid.uuid4().hex
