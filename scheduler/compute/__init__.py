# SPDX-License-Identifier: Apache-2.0
"""Virtual machines: their columns, consumption, and nova's form of a host."""
