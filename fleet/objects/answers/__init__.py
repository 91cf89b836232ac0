# SPDX-License-Identifier: Apache-2.0
"""The answers of the ``operator`` namespace, as types of plain data. Times are ISO 8601 text in UTC.

``instances`` (instances, moves, the room queue, events), ``hosts`` (hosts, services, aggregates, use, findings), ``volumes``
and ``catalog``. The conductor makes them, and ``fleet-api`` and the ``fleet`` command read them; agents read images, and
schedulers changes of aggregates. A conductor of another release may leave out a field, or add one.
"""
