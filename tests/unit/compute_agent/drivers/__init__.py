# SPDX-License-Identifier: Apache-2.0
"""Tests of the drivers and of the guests that they run."""
