# SPDX-License-Identifier: Apache-2.0
"""What requests name, and what limits them: flavors, images, groups, key pairs and quotas."""
