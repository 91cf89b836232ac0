# SPDX-License-Identifier: Apache-2.0
"""Tests of the volume agent; ``builders`` makes what a test is not about."""
