# SPDX-License-Identifier: Apache-2.0
"""Worlds: parts of a fleet with fakes around them, shared by several suites or by many files of tests."""
