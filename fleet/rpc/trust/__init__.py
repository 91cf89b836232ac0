# SPDX-License-Identifier: Apache-2.0
"""Checks of incoming messages: size and form, signature, ledger.

Read ``admission`` (every check before an endpoint sees a message), ``message_size``, ``signing`` with ``keyring`` (the keys)
and ``replay_protection`` (a signature is good for one message).
"""
