# SPDX-License-Identifier: Apache-2.0
"""Metrics for Prometheus, and health for probes and systemd.

Vocabulary: a *round trip* is a message through the broker to this process's own queue and back, or a query. A daemon
is *live* while its round trips end, with whatever result; it is *ready* while they succeed; it is *stuck* when none
has ended for too long, and then it exits.

Read ``metrics`` (all metrics), ``watchdog``, ``health`` (the HTTP pages) and ``systemd``; then ``rate_limited_log``
and ``process_memory``. ``conf`` has the options.
"""
