# SPDX-License-Identifier: Apache-2.0
"""Instances: boot, list, stop, move and delete them; their volumes, the queue for room, what was done."""
