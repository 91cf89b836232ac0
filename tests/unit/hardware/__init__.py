# SPDX-License-Identifier: Apache-2.0
"""Tests of NUMA cells and PCI devices."""
