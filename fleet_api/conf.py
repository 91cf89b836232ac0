# SPDX-License-Identifier: Apache-2.0
"""Options of ``fleet-api``, in the group ``[api]``.

:mod:`fleet_api.main` registers them, and the sample file of the options lists them.
"""

from __future__ import annotations

from collections.abc import Sequence

from oslo_config import cfg

GROUP = "api"
#: Values of ``auth_strategy``.
NONE, HTTP_BASIC, KEYSTONE = "none", "http_basic", "keystone"
OPTS = [
    cfg.HostAddressOpt(
        "bind_host",
        default="127.0.0.1",
        help="Address on which fleet-api listens. With auth_strategy = none it must be a loopback address.",
    ),
    cfg.PortOpt("port", default=8774, help="Port on which fleet-api listens. 8774 is the port of nova's API."),
    cfg.StrOpt(
        "auth_strategy",
        default=NONE,
        choices=[
            (NONE, "everybody is the administrator; for one machine, or behind a proxy on it that asks who it is"),
            (HTTP_BASIC, "users with passwords, from basic_auth_file"),
            (KEYSTONE, "users of OpenStack's identity service, which checks their tokens; see [keystone_authtoken]"),
        ],
        help="How clients prove who they are.",
    ),
    cfg.ListOpt(
        "host_names",
        default=[],
        help="Names under which clients reach fleet-api, such as that of a proxy. With auth_strategy = none a request for a "
        "name that is not among these is refused, except for addresses, localhost and the machine's own name: a page of "
        "another site could otherwise give its own name this machine's address, and read and change everything.",
    ),
    cfg.StrOpt(
        "basic_auth_file",
        help="Passwords of the users with auth_strategy = http_basic: lines NAME:HASH with bcrypt hashes, as "
        "'htpasswd -B -C 10' writes them. A hash has a cost from 10 to 15. The file is read again when it changes. "
        "It must not be readable by every user of the machine.",
    ),
    cfg.StrOpt(
        "projects_file",
        help="Projects and roles of these users: a section [NAME] for each, with 'project' and 'roles' (reader, member, "
        "admin). A user without a section is a member of the project of the same name.",
    ),
    cfg.BoolOpt(
        "enable_instance_password",
        default=True,
        help="Whether the answer to a request for a server has adminPass: the password that the request has named, or a "
        "new one. cloud-init sets it for the default user of a guest of the driver libvirt; user data are stronger. Other "
        "drivers set no password. It is stored as the user data are, and no later answer has it. With false, only "
        "passwords that requests name are set, and no answer has one.",
    ),
    cfg.IntOpt(
        "threads",
        default=8,
        min=1,
        help="Requests that are worked on at the same time. A request waits for the conductor. Clients that send or read "
        "slowly take no thread. Users take turns, and two threads are left to others by each.",
    ),
    cfg.IntOpt(
        "event_streams",
        default=16,
        min=1,
        help="Clients that may follow /fleet/v1/events at the same time; further ones get 503. Each takes a thread beside "
        "those of threads, and asks the conductor once a second. The page is such a client while it shows events.",
    ),
    cfg.IntOpt(
        "event_streams_per_user",
        default=4,
        min=1,
        help="Streams that one user may follow at the same time; further ones get 429. Not with auth_strategy = none, where "
        "all clients are one user.",
    ),
    cfg.IntOpt("connection_limit", default=1000, min=1, help="Connections at the same time. Further clients wait."),
    cfg.IntOpt(
        "connections_per_address",
        default=250,
        min=1,
        help="Connections of one address at the same time; further ones are closed. Raise it to connection_limit behind a "
        "proxy, whose address is that of all clients.",
    ),
    cfg.IntOpt(
        "request_timeout",
        default=20,
        min=1,
        help="Seconds for a request to arrive, with its headers and its body; a connection that takes longer is closed. For "
        "a new connection they begin when it opens.",
    ),
    cfg.IntOpt(
        "idle_timeout",
        default=60,
        min=1,
        help="Seconds after which a connection on which nothing is sent is closed; also one whose client takes nothing of "
        "an answer for so long.",
    ),
    cfg.IntOpt("max_body", default=262_144, min=1024, help="Bytes of the largest body that is accepted; else 413."),
    cfg.IntOpt("max_limit", default=1000, min=1, help="Most servers in one answer. The answer links to the next ones."),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, GROUP)


def list_opts() -> list[tuple[str, Sequence[cfg.Opt]]]:
    """Return the options by group, for oslo-config-generator."""
    return [(GROUP, OPTS)]
