# SPDX-License-Identifier: Apache-2.0
"""What the ``openstack`` client reads of the Networking API v2.0: networks, subnets and ports. Nothing is changed here.

A network has one subnet, which has its uuid. A port is an address that a server has.
"""
