# SPDX-License-Identifier: Apache-2.0
"""The API of volumes, below ``/v3``: as much of OpenStack's block storage API as ``openstack volume`` needs.

Read ``routes`` first, then ``volumes`` with ``volume_request`` (what clients send), ``snapshots``, ``volume_types`` and
``pools`` (storage pools and zones) and ``services`` (of backends).
"""
