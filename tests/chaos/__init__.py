# SPDX-License-Identifier: Apache-2.0
"""``make chaos``: real daemons on a private RabbitMQ and PostgreSQL, hurt on purpose, and judged while they are.

A *scenario* is one function that hurts a *world* as its seed says; the *watcher* judges the world every second meanwhile
(``tests.invariants``); the *run* heals, waits for rest, judges again, deletes everything and fills a row of the *matrix*.

Read ``world`` (servers, daemons and the ways to hurt them), ``scenarios`` (one file a kind of fault), ``run``,
``watcher``, ``logs`` and ``figures`` (what the invariants ask of them), ``matrix``; ``wire`` and ``proxy`` stand between
the daemons and their servers.
"""
