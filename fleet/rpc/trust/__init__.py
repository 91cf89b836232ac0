# SPDX-License-Identifier: Apache-2.0
"""Checks of incoming messages: size and form, signature, ledger, further copies.

Read ``admission`` (every check before an endpoint sees a message), ``message_size``, ``signing`` with ``keyring`` (the
keys), ``replay_protection`` (a signature is good for one message) and ``repeated_changes`` (a message that is published
again).
"""
