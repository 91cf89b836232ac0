# SPDX-License-Identifier: Apache-2.0
"""The read-only part of the Networking API v2.0 that the ``openstack`` client needs: networks, subnets and ports. Nothing
is changed here.

A network has one subnet, which has its uuid. A port is an address that a server has.
"""
