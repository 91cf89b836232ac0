# SPDX-License-Identifier: Apache-2.0
"""Flavors, images, groups, key pairs and quotas. Conductors read and write them."""
