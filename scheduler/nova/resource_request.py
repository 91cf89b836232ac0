# SPDX-License-Identifier: Apache-2.0
"""Groups of resources with traits that a request needs of placement, and the query for them.

Called by the modules beside it. The group without suffix may be spread over the providers of one tree and those that
share with it. Each group with a suffix comes from one provider. Names are those of ``GET /allocation_candidates``.
"""

from __future__ import annotations

import dataclasses
import urllib.parse
from collections.abc import Mapping

#: Resource classes of a compute node that the columns of a host have.
OF_HOSTS = frozenset({"VCPU", "MEMORY_MB", "DISK_GB"})
#: Suffix of the group without one.
MAIN = ""


@dataclasses.dataclass(frozen=True)
class Group:
    """Amounts by resource class; traits; and uuids of placement's aggregates.

    :param aggregates: sets; a provider must be in one aggregate of each
    :param in_tree: uuid of the compute node whose tree it must be in
    """

    resources: Mapping[str, int] = dataclasses.field(default_factory=dict)
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()
    aggregates: tuple[frozenset[str], ...] = ()
    forbidden_aggregates: frozenset[str] = frozenset()
    in_tree: str | None = None

    @property
    def is_empty(self) -> bool:
        return not (self.resources or self.required or self.forbidden or self.aggregates or self.forbidden_aggregates)

    def parameters(self, suffix: str) -> list[tuple[str, str]]:
        found = []
        if self.resources:
            amounts = ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources.items()))
            found.append((f"resources{suffix}", amounts))
        if traits := traits_text(self.required, self.forbidden):
            found.append((f"required{suffix}", traits))
        found += [(f"member_of{suffix}", f"in:{','.join(sorted(each))}") for each in self.aggregates]
        if self.forbidden_aggregates:
            found.append((f"member_of{suffix}", f"!in:{','.join(sorted(self.forbidden_aggregates))}"))
        if self.in_tree:
            found.append((f"in_tree{suffix}", self.in_tree))
        return found


@dataclasses.dataclass(frozen=True)
class ResourceRequest:
    """The resources that one instance needs.

    :param groups: by suffix
    :param root_required: traits that the compute node itself must have
    :param overridden: True if extra specs replace an amount of the flavor
    :param unpinned: the groups with VCPU in the place of dedicated CPUs, for hosts that report no PCPU; None if the request
        has no dedicated CPUs
    """

    groups: Mapping[str, Group]
    policy: str | None = None
    root_required: frozenset[str] = frozenset()
    root_forbidden: frozenset[str] = frozenset()
    same_subtree: tuple[frozenset[str], ...] = ()
    overridden: bool = False
    unpinned: Mapping[str, Group] | None = None

    @property
    def main(self) -> Group:
        return self.groups.get(MAIN, Group())

    @property
    def is_plain(self) -> bool:
        """True if the compute node's own inventories of :data:`OF_HOSTS` decide, and its own traits."""
        return self.groups.keys() <= {MAIN} and self.main.resources.keys() <= OF_HOSTS and not self.same_subtree

    @property
    def required(self) -> frozenset[str]:
        """Traits of a compute node that serves a plain request."""
        return self.main.required | self.root_required

    @property
    def forbidden(self) -> frozenset[str]:
        return self.main.forbidden | self.root_forbidden

    def within(
        self, aggregates: tuple[frozenset[str], ...], forbidden: frozenset[str], in_tree: str | None
    ) -> ResourceRequest:
        """Return the request for providers in these aggregates, or for one compute node only."""
        main = dataclasses.replace(
            self.main,
            aggregates=(*self.main.aggregates, *aggregates),
            forbidden_aggregates=self.main.forbidden_aggregates | forbidden,
            in_tree=in_tree,
        )
        return dataclasses.replace(self, groups={**self.groups, MAIN: main})

    def fallback(self) -> ResourceRequest | None:
        """Return the request for hosts that report no PCPU; None without dedicated CPUs."""
        if self.unpinned is None:
            return None
        return dataclasses.replace(self, groups=self.unpinned, unpinned=None)

    def query(self, limit: int | None) -> str:
        """Return the parameters of ``GET /allocation_candidates``. :param limit: most candidates; None: all"""
        found = [("limit", str(limit))] if limit else []
        if self.policy:
            found.append(("group_policy", self.policy))
        if traits := traits_text(self.root_required, self.root_forbidden):
            found.append(("root_required", traits))
        found += [("same_subtree", ",".join(sorted(each))) for each in self.same_subtree]
        for suffix, group in self.groups.items():
            found += group.parameters(suffix)
        return urllib.parse.urlencode(sorted(found))


def traits_text(required: frozenset[str], forbidden: frozenset[str]) -> str:
    """Return traits in the form of a parameter."""
    return ",".join([*sorted(required), *(f"!{name}" for name in sorted(forbidden))])
