# SPDX-License-Identifier: Apache-2.0
"""The scheduler in the place of nova-scheduler: it serves nova's conductor from nova's own databases.

Vocabulary: an *envelope* is the form in which nova sends an object; a *cell* is one of nova's databases with its hosts; a
*provider* is a compute node in placement; to *claim* is to write an instance's allocation there before the answer.

Read ``request`` (what nova asks for), ``decoder`` and ``answer`` (nova's wire format), ``scope`` and ``traits`` (what is
refused, and what is required of a host).
"""
