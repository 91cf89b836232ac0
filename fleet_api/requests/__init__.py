# SPDX-License-Identifier: Apache-2.0
"""The steps that every request passes.

``paths`` (of the same services under other names), ``microversions`` (discovery, and the version of each request),
``well_formed`` and ``bodies`` (parsing of what clients send), ``guard`` (the rule of each responder), ``conductor`` (asks
it) with ``calls`` (those that the ``fleet`` command may send), ``answers`` and ``paging``, ``faults`` (errors as HTTP
answers) and ``page`` (what browsers may send; the page itself is in ``fleet_api/static/``).
"""
