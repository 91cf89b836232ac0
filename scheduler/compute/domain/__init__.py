# SPDX-License-Identifier: Apache-2.0
"""Compute nodes, instances and requests as the engine reads them.

Read ``virtual_machines`` first: it is the value that names everything else. ``columns`` and ``hardware`` read compute
nodes, ``tracked_instance`` and ``consumption`` instances, ``request_key`` requests. ``host_state``, ``views`` and
``nova_form`` show a host in nova's form. Filters and weighers share ``aggregate_metadata``, ``aggregate_overrides``,
``extra_spec_lookup``, ``host_metrics``, ``ratio_options``, ``group_members``, ``failure_domains`` and ``attestation``.
"""
