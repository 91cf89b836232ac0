# SPDX-License-Identifier: Apache-2.0
"""What a fleet could take: capacity, and another fleet in thought."""
