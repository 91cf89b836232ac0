# SPDX-License-Identifier: Apache-2.0
"""Code that agents of hosts and of storage backends share.

Read ``life`` (from start to stop, drawn), ``connection`` (what a process sends and receives with), ``host_names`` and
``identity`` (what a process serves, and that no other does), ``beginning`` (the start is repeated until it succeeds),
``presence`` (registration and heartbeats), ``patience`` (calls are repeated until they are answered), ``batching`` (calls of
several hosts or backends in one message), ``work_queues`` (one job at a time for an instance or a volume), ``loading``
(classes that options name), ``image`` (the bytes of images), ``whole_file`` (all of a file or nothing), ``commands``
(programs of the system), ``time_limit`` (calls of a driver, which may hang).
"""
