# SPDX-License-Identifier: Apache-2.0
"""Real guests: QEMU without hardware acceleration boots a tiny image, under a private libvirtd (``make guests``).

Read ``tiny_image`` (what boots), ``machine`` (a driver on the private libvirtd), then the tests. ``make test`` runs
``test_boot`` only.
"""
