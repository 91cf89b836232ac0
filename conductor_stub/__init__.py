# SPDX-License-Identifier: Apache-2.0
"""The conductor: accepts requests, drives each build, move and volume to its end, and writes the ledger.

A *request* is one call of a client; each of its instances is a *build*. A *move* is a resize or an evacuation. A *step*
is one status of a build, move or volume (``fleet.states`` and its neighbours). The *sweeper* acts on a step whose deadline
has passed.

Read ``main`` (the daemon), ``wiring`` (its domains) and ``parts`` (what a domain is wired from), then the rooms: ``steps``
(what they have in common), ``builds``, ``moves``, ``power``, ``attachments``, ``volumes`` (the same file names in each),
``agents`` (what agents read and write), ``operators`` (what the ``fleet`` command reads and changes). Each has ``wiring``
(its objects); its RPC surface is ``manager`` or ``intake``. ``conf`` declares the options, ``checks`` tries a
configuration.
"""

import fleet  # noqa: F401  (chooses native threads before anything here imports oslo.messaging)
