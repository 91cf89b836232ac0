# SPDX-License-Identifier: Apache-2.0
"""Tests of the compute agent; ``builders`` makes what a test is not about."""
