# SPDX-License-Identifier: Apache-2.0
"""The output of commands: lists fitted to the terminal, times, progress, and nothing that moves the cursor."""
