# SPDX-License-Identifier: Apache-2.0
"""The command line: what it asks for and how it says what came of it."""
