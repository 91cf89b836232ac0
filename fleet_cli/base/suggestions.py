# SPDX-License-Identifier: Apache-2.0
"""Suggests commands for one that does not exist. Called by :mod:`fleet_cli.base.application`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

#: Suggestions; the likeness that one needs (1 is equal), and how much less than the best one.
MOST, _LIKE, _NEAR = 3, 0.62, 0.15
#: Share of the first letter, which is seldom mistyped.
_FIRST_LETTER = 0.15
#: Words of other programs for words of ours.
_SAME = {
    **dict.fromkeys(("remove", "rm", "destroy", "terminate", "kill"), "delete"),
    **dict.fromkeys(("get", "describe", "info", "details", "status"), "show"),
    **dict.fromkeys(("ls", "all"), "list"),
    **dict.fromkeys(("new", "add", "make", "run", "launch"), "create"),
    **dict.fromkeys(("instance", "instances", "vm", "vms", "servers"), "server"),
    **dict.fromkeys(("node", "nodes", "hosts", "hypervisor", "hypervisors"), "host"),
    **dict.fromkeys(("key", "keys", "keypairs"), "keypair"),
    **dict.fromkeys(("flavors", "type", "types"), "flavor"),
}


def suggested(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return at most three of the commands ``names``, the likeliest first.

    :param argv: the command line, without global options
    """
    words = [word.lower() for word in _words(argv)]
    lines = [words, [_SAME.get(word, word) for word in words]]
    scored = {name: max(_likeness(line, name.split()) for line in lines) for name in names}
    best = max(scored.values(), default=0.0)
    good = sorted((-score, name) for name, score in scored.items() if score >= max(_LIKE, best - _NEAR))
    return [name for _score, name in good[:MOST]] or _of_verb(words, scored)


def _of_verb(words: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the commands that end with the first word, as in "drain HOST", if they are few."""
    found = sorted(name for name in names if words and name.split()[1:] == [words[0]])
    return found if len(found) <= MOST else []


def continued(argv: Sequence[str], names: Iterable[str]) -> list[str]:
    """Return the words that may follow if the whole command line is the beginning of commands."""
    words = _words(argv)
    if not words or len(words) != len(argv):
        return []
    begun = [parts[len(words) :] for name in names if (parts := name.split())[: len(words)] == words]
    return list(dict.fromkeys(rest[0] for rest in begun if rest))


def _words(argv: Sequence[str]) -> list[str]:
    """Return the words before the first option."""
    first = next((number for number, word in enumerate(argv) if word.startswith("-")), len(argv))
    return list(argv[:first])


def _likeness(words: Sequence[str], wanted: Sequence[str]) -> float:
    """Compare a command with the beginning of the line: what follows it may be arguments.

    A line that is shorter than the command is compared with the command's beginning, and counts a little less.
    """
    pairs = list(zip(words, wanted, strict=False))
    if not pairs:
        return 0.0
    each = [_of_word(*pair) for pair in pairs]
    # One word that differs much makes it another command.
    return min(each) * 0.5 + sum(each) / len(each) * 0.5 - 0.1 * (len(wanted) - len(pairs))


def _of_word(word: str, wanted: str) -> float:
    ratio = difflib.SequenceMatcher(None, word, wanted).ratio()
    return ratio * (1 - _FIRST_LETTER) + _FIRST_LETTER * (word[:1] == wanted[:1])
