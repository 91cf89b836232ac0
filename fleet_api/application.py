# SPDX-License-Identifier: Apache-2.0
"""The WSGI application: its routes, and what happens to every request before and after.

Called by :mod:`fleet_api.main`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from wsgiref.types import WSGIApplication

import falcon
import orjson
from falcon import media
from oslo_config import cfg

from fleet_api.access import known_projects, tokens
from fleet_api.access.attempts import Attempts
from fleet_api.access.identity import Identity, is_public
from fleet_api.access.projects import Projects
from fleet_api.access.rules import DOCUMENT, SESSION
from fleet_api.access.sessions import Sessions
from fleet_api.block_storage.routes import routes as block_storage
from fleet_api.compute import quota_names
from fleet_api.compute.aggregates import Aggregates
from fleet_api.compute.catalog.extra_specs import ExtraSpecs
from fleet_api.compute.catalog.flavors import Flavors
from fleet_api.compute.groups import Groups
from fleet_api.compute.hypervisors import Hypervisors
from fleet_api.compute.images import Images
from fleet_api.compute.key_pairs import KeyPairs
from fleet_api.compute.limits import Limits
from fleet_api.compute.migrations import Migrations
from fleet_api.compute.quotas import QuotaClasses, Quotas
from fleet_api.compute.services import Services
from fleet_api.compute.zones import Zones
from fleet_api.conf import KEYSTONE, NONE
from fleet_api.network.networks import Networks
from fleet_api.network.ports import Ports
from fleet_api.own import doctor, events, openapi, own
from fleet_api.own.events import Events, Streams
from fleet_api.own.openapi import Route
from fleet_api.requests import faults, guard, microversions, page, well_formed
from fleet_api.requests.conductor import Conductor
from fleet_api.requests.paths import project_paths
from fleet_api.requests.paths.roots import Roots
from fleet_api.servers.actions import Actions
from fleet_api.servers.attachments import Attachments
from fleet_api.servers.input import passwords
from fleet_api.servers.instance_actions import InstanceActions
from fleet_api.servers.server_details import Metadata, ServerTags
from fleet_api.servers.server_migrations import ServerMigrations
from fleet_api.servers.servers import Servers
from fleet_api.servers.usage import Usages

_ROOT = "/v2.1"


def application(conductor: Conductor, conf: cfg.ConfigOpts, streams: Streams | None = None) -> WSGIApplication:
    """Return the application for any WSGI server.

    :param streams: to end the streams of events when the server stops
    :raises errors.ConfigError: the files of users, or the options of keystone, cannot be used
    """
    attempts = Attempts()
    served = routes(conductor, conf, streams or streams_of(conf), attempts)
    document = Route(DOCUMENT, openapi.OpenAPI(served))
    in_path = project_paths.ProjectPaths(route.path for route in served)
    middleware: Any = [
        well_formed.WellFormed(),
        Identity(conf, guarded([*served, document]), attempts),
        in_path,
        microversions.Negotiation(),
        page.Browsers(conf),
    ]
    app = falcon.App(middleware=middleware)
    # Lists have thousands of records.
    app.resp_options.media_handlers[falcon.MEDIA_JSON] = media.JSONHandler(dumps=orjson.dumps)
    app.req_options.strip_url_path_trailing_slash = True
    app.req_options.auto_parse_qs_csv = False
    faults.register(app)
    for route in (*served, document):
        app.add_route(*route[:2], suffix=route.suffix)
    page.add_routes(app)
    return Roots(tokens.Protected(app, conf, is_public) if conf.api.auth_strategy == KEYSTONE else app)


def guarded(served: Iterable[Route]) -> dict[tuple[str, str], str]:
    """Return the rule of each request, by method and route. :raises AttributeError: a responder names none"""
    return {
        (method.upper(), route.template): guard.rule_of(responder)
        for route in served
        for method, responder in route.responders()
    }


def streams_of(conf: cfg.ConfigOpts) -> Streams:
    """Return the streams of events, none yet. Without authentication all clients are one user."""
    of_user = None if conf.api.auth_strategy == NONE else conf.api.event_streams_per_user
    return Streams(conf.api.event_streams, of_user)


def routes(
    conductor: Conductor, conf: cfg.ConfigOpts, streams: Streams, attempts: Attempts | None = None
) -> list[Route]:
    """All paths but those of the page and of the document of the API.

    :param attempts: those of all that take passwords; without them, wrong ones count for these routes alone
    """
    discovery, images = microversions.Discovery(), Images(conductor)
    found = [
        Route("/", discovery),
        Route(microversions.OLD_PATH, discovery, "old"),
        Route(_ROOT, discovery, "version"),
        Route(microversions.VOLUME.path, discovery, "volume"),
        Route(microversions.NETWORK.path, discovery, "network"),
        Route(events.PATH, Events(conductor, streams)),
        Route(doctor.PATH, doctor.Doctor(conductor)),
        Route(SESSION, Sessions(conf, attempts or Attempts())),
    ]
    for root, below in (
        (_ROOT, _compute(conductor, conf)),
        (microversions.VOLUME.path, block_storage(conductor, conf.api.max_limit, known_projects.source(conf))),
        (own.ROOT, own.routes(conductor)),
    ):
        found += [Route(f"{root}{path}", resource, suffix) for path, resource, suffix in below]
    # With one endpoint for all services the client asks for networks and images below it; with one of their own, at /v2.0
    # and /v2.
    networks, ports = Networks(conductor), Ports(conductor)
    for root in (microversions.NETWORK.path, _ROOT):
        found += [Route(f"{root}/networks", networks), Route(f"{root}/networks/{{network_id}}", networks, "one")]
        found += [
            Route(f"{root}/subnets", networks, "subnets"),
            Route(f"{root}/subnets/{{subnet_id}}", networks, "subnet"),
        ]
        found += [Route(f"{root}/ports", ports), Route(f"{root}/ports/{{port_id}}", ports, "one")]
    for root in ("/v2", _ROOT, f"{_ROOT}/v2"):
        found += [Route(f"{root}/images", images), Route(f"{root}/images/{{image_id}}", images, "one")]
    return found


def _compute(conductor: Conductor, conf: cfg.ConfigOpts) -> list[tuple[str, object, str | None]]:
    servers, flavors, specs = (
        Servers(conductor, conf.api.max_limit, passwords.source(conf)),
        Flavors(conductor),
        ExtraSpecs(conductor),
    )
    metadata, tags = Metadata(conductor), ServerTags(conductor)
    hypervisors, services, zones = Hypervisors(conductor), Services(conductor), Zones(conductor)
    aggregates, groups, done = (
        Aggregates(conductor),
        Groups(conductor),
        InstanceActions(conductor),
    )
    migrations = ServerMigrations(conductor)
    quotas, projects = Quotas(conductor, quota_names.COMPUTE, known_projects.source(conf)), Projects(conductor)
    key_pairs, attachments = KeyPairs(conductor), Attachments(conductor)
    usages = Usages(conductor, conf.api.max_limit)
    return [
        ("/servers", servers, None),
        ("/servers/detail", servers, "detail"),
        ("/servers/{server_id}", servers, "one"),
        ("/servers/{server_id}/metadata", metadata, None),
        ("/servers/{server_id}/metadata/{key}", metadata, "key"),
        ("/servers/{server_id}/tags", tags, None),
        ("/servers/{server_id}/tags/{tag}", tags, "one"),
        ("/servers/{server_id}/os-volume_attachments", attachments, None),
        ("/servers/{server_id}/os-volume_attachments/{volume_id}", attachments, "one"),
        ("/servers/{server_id}/ips", servers, "addresses"),
        ("/servers/{server_id}/ips/{network}", servers, "addresses_in"),
        ("/servers/{server_id}/os-interface", servers, "interfaces"),
        ("/servers/{server_id}/os-security-groups", servers, "security_groups"),
        ("/servers/{server_id}/action", Actions(conductor, passwords.source(conf)), None),
        ("/servers/{server_id}/os-instance-actions", done, None),
        ("/servers/{server_id}/os-instance-actions/{request_id}", done, "one"),
        ("/servers/{server_id}/migrations", migrations, None),
        ("/servers/{server_id}/migrations/{migration_id}", migrations, "one"),
        ("/servers/{server_id}/migrations/{migration_id}/action", migrations, "action"),
        ("/os-migrations", Migrations(conductor, conf.api.max_limit), None),
        ("/flavors", flavors, None),
        ("/flavors/detail", flavors, "detail"),
        ("/flavors/{flavor_id}", flavors, "one"),
        ("/flavors/{flavor_id}/action", flavors, "action"),
        ("/flavors/{flavor_id}/os-flavor-access", flavors, "access"),
        ("/flavors/{flavor_id}/os-extra_specs", specs, None),
        ("/flavors/{flavor_id}/os-extra_specs/{key}", specs, "one"),
        ("/os-hypervisors", hypervisors, None),
        ("/os-hypervisors/detail", hypervisors, "detail"),
        ("/os-hypervisors/statistics", hypervisors, "statistics"),
        ("/os-hypervisors/{hypervisor_id}", hypervisors, "one"),
        ("/os-hypervisors/{hypervisor_id}/search", hypervisors, "search"),
        ("/os-hypervisors/{hypervisor_id}/servers", hypervisors, "servers"),
        ("/os-hypervisors/{hypervisor_id}/uptime", hypervisors, "uptime"),
        ("/os-services", services, None),
        ("/os-services/{service_id}", services, "one"),
        ("/os-availability-zone", zones, None),
        ("/os-availability-zone/detail", zones, "detail"),
        ("/os-aggregates", aggregates, None),
        ("/os-aggregates/{aggregate_id}", aggregates, "one"),
        ("/os-aggregates/{aggregate_id}/action", aggregates, "action"),
        ("/os-server-groups", groups, None),
        ("/os-server-groups/{group_id}", groups, "one"),
        ("/os-keypairs", key_pairs, None),
        ("/os-keypairs/{name:path}", key_pairs, "one"),
        ("/os-simple-tenant-usage", usages, None),
        ("/os-simple-tenant-usage/{project_id}", usages, "one"),
        ("/limits", Limits(conductor, quota_names.COMPUTE), None),
        ("/os-quota-class-sets/{quota_class}", QuotaClasses(conductor, quota_names.COMPUTE), None),
        ("/projects", projects, None),
        ("/projects/{project_id}", projects, "one"),
        ("/os-quota-sets/{project_id}", quotas, None),
        ("/os-quota-sets/{project_id}/detail", quotas, "detail"),
        ("/os-quota-sets/{project_id}/defaults", quotas, "defaults"),
    ]
