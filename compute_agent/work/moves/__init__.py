# SPDX-License-Identifier: Apache-2.0
"""One host's part of moves.

Read ``mover`` (the loop), then ``destination`` and ``source`` (its steps), which share ``steps``. ``live_migration`` follows
a guest that moves while it runs.
"""
