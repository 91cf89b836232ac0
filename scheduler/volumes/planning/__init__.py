# SPDX-License-Identifier: Apache-2.0
"""``whatif`` places volumes on a changed copy of the pools. ``fleet whatif`` calls it for changes of pools."""
