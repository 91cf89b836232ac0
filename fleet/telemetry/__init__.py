# SPDX-License-Identifier: Apache-2.0
"""How a daemon shows what it does and how it is: numbers for Prometheus, health for probes and systemd.

Vocabulary: a *round trip* is a real message through the broker to this process's own queue and back, or a real query;
a daemon is *live* while its round trips come to an end, with whatever result; it is *ready* while they succeed; it is
*stuck* when none has ended for too long, and then it exits.

Read ``metrics`` for all numbers, then ``watchdog``, then ``health`` which shows both on a loopback port.
"""
