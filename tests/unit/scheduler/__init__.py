# SPDX-License-Identifier: Apache-2.0
"""Unit tests of the scheduler: no broker, no database, no sleep."""
