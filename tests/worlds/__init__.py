# SPDX-License-Identifier: Apache-2.0
"""Worlds: parts of a fleet with fakes around them, which several suites or many files of tests share.

A world that one suite uses is in the folder of this suite. Choose by what is tested:

the conductor         ``conductor``: all its parts over a real database. ``neighbours``: what it calls.
                      ``volumes``: with two storage backends. ``guests``: with hosts, too.
                      ``answer_types``: checks all its answers.
a compute agent       ``one_host``: its parts. ``agents_over_rpc``: whole agents.
                      ``agent_ledger`` and ``move_ledger``: the conductor that both call.
a volume agent        ``one_backend``: its parts. ``storage_ledger``: the conductor that it calls.
the HTTP service      ``http_conductor``: a table of answers.
"""
