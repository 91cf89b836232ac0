# SPDX-License-Identifier: Apache-2.0
"""fleet-scheduler in the place of nova-scheduler, with a real nova: ``make nova``.

Vocabulary: a *cloud* is nova's API, conductors and compute services with nova's fake driver, placement, and stand-ins for
the image and network services; all of it runs on a private broker and database. An *arrangement* is a condition of a cloud
for the time of a scenario. A *scenario* is played with nova-scheduler and with fleet-scheduler, and is to end alike.

Read ``layout`` (cells and hosts), ``databases``, ``grants``, ``files`` and ``cloud`` (what is started, and how),
``stand_ins``, ``calls`` (what tests ask), ``arrangements`` and ``scenarios``, then the tests. ``novas_queries`` and
``novas_payloads`` run nova's own code.
"""
