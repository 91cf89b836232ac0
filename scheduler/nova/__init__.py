# SPDX-License-Identifier: Apache-2.0
"""The scheduler in the place of nova-scheduler: it serves nova's conductor from nova's own databases.

Vocabulary: an *envelope* is the form in which nova sends an object; a *cell* is one of nova's databases with its hosts; a
*provider* is a compute node in placement; to *claim* is to write an instance's allocation there before the answer.

Read in this order:

- the requests: ``request`` (what nova asks for), ``decoder`` and ``answer`` (nova's wire format), ``scope`` and ``traits``
  (what is refused, and what is required of a host), ``errors`` and ``context``
- the hosts: ``rows``, ``cell_feed`` and ``feed`` (what nova's databases show), ``domain`` and ``destination`` (the columns
  and the filter that only nova has), ``polling``
- the work: ``placement`` and ``claims``, ``placing`` (choose and claim), ``rebuild``, ``endpoint`` (the RPC surface)
- before a switch: ``check``, ``comparison``, ``nova_filters`` and ``run_nova_filters``
- ``conf`` and ``service`` (the wiring)
"""
