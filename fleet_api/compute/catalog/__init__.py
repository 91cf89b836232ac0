# SPDX-License-Identifier: Apache-2.0
"""Flavors and their extra specs."""
