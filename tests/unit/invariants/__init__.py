# SPDX-License-Identifier: Apache-2.0
"""The checks themselves: each finds what it is there to find."""
