# SPDX-License-Identifier: Apache-2.0
"""The scheduler in the place of nova-scheduler: it serves nova's conductor from nova's own databases.

Vocabulary: an *envelope* is the form in which nova sends an object; a *cell* is one of nova's databases with its hosts; a
*provider* is a compute node in placement; to *claim* is to write an instance's allocation there before the answer.

Read in this order:

- the requests: ``request`` (what nova asks for), ``decoder`` and ``answer`` (nova's wire format), ``resource_request`` and
  ``wanted`` (what a request takes of placement), ``request_filters``, ``traits``, ``errors`` and ``context``
- the hosts: ``rows``, ``reading_times``, ``cell_feed``, ``providers`` and ``feed`` (what the databases of nova and placement
  show), ``domain_columns``, ``domain``, ``destination`` and ``inventory_filters`` (the columns and filters that only nova
  has), ``polling``
- the work: ``placement``, ``candidates`` and ``claims``, ``placing`` (choose and claim), ``rebuild``,
  ``notification_payload`` and ``notifications``, ``endpoint`` (the RPC surface)
- before a switch: ``check``, ``comparison``, ``nova_filters`` and ``run_nova_filters``
- ``conf``, ``probes``, ``heartbeat`` (the row in nova's list of services) and ``service`` (the wiring)
"""
