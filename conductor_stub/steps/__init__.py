# SPDX-License-Identifier: Apache-2.0
"""What builds and moves have in common.

Read ``limits`` (time limits of the steps), ``request_spec`` (what the scheduler receives), ``faults`` (how an error is
stored and shown).
"""
