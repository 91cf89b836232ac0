# SPDX-License-Identifier: Apache-2.0
"""The command line: the calls it makes, and the output it prints."""
