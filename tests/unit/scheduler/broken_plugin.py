# SPDX-License-Identifier: Apache-2.0
"""A plugin whose import raises."""

raise RuntimeError("no licence")
