# SPDX-License-Identifier: Apache-2.0
"""What requests name: flavors, images, groups, key pairs and quotas."""
