# SPDX-License-Identifier: Apache-2.0
"""The state machine that builds, moves and volumes share, and the workers that drive a row through it.

Read ``machine`` (the lives of rows, drawn), ``limits`` (time limits, and the context of a transaction), ``placement``
(waiting rows get a host), ``sweeper`` (what was lost is repeated), ``attempt`` (an attempt on one host, and why it failed),
``avoidance`` (hosts that the next attempt leaves out), ``casting`` (messages to hosts), ``group_commit`` (many writes in
one transaction), ``local_placement`` (threads that place what this conductor has accepted). ``request_spec`` makes what
the scheduler receives, ``flavor_check`` what a flavor asks of a host, ``devices`` names
disks, ``reach`` says which hosts have the data of volumes,
``faults`` how an error is stored and shown.
``client_token`` is a client's name for its request. ``hook`` runs a command of the operator's for a host, ``fence`` the one
that switches it off, of which ``guard`` lets nothing outlive its conductor, and ``beside`` keeps them beside the caller.
``waking`` lets guests that found no host be tried when one comes into use.
"""
