# SPDX-License-Identifier: Apache-2.0
"""Calls to libvirt, one topic a module. Only ``connection`` loads the library; nothing here knows files of guests.

``domain_xml`` defines a domain, ``power`` and ``volumes`` change it, ``live`` and ``peer`` bring it to another host,
``capabilities``, ``pci_devices`` and ``interfaces`` read the machine.
"""
