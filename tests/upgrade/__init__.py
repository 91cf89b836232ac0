# SPDX-License-Identifier: Apache-2.0
"""What a release leaves to later ones: its ledger is upgraded, and its messages are answered as it answered them.

Read ``release`` (the files of a release), ``recording`` (which makes them, at the commit of the release), then the tests.
"""
