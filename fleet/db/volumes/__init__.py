# SPDX-License-Identifier: Apache-2.0
"""Volumes, their requests, types and history, the pools that they are in, and their attachments.

Conductors read and write them.
"""
