# SPDX-License-Identifier: Apache-2.0
"""``fleet complete``: prints a shell script that completes commands, options, their values, and names of objects.

Commands and options are part of the script, so that completing them starts no program. Names are read with ``fleet
complete --names KIND``, which prints nothing if no conductor answers.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cliff import command as cliff_command

from fleet.client.connection import Record
from fleet.json_codec import JSONObject

#: Seconds to wait for names.
_PATIENCE_S = 2
#: By kind: the method that lists the objects, and the field with the name.
KINDS: Mapping[str, tuple[str, JSONObject, str]] = {
    "server": ("list_instances", {"filters": {}, "brief": True}, "name"),
    "host": ("list_hosts", {}, "host"),
    "flavor": ("list_flavors", {}, "name"),
    "aggregate": ("list_aggregates", {}, "name"),
    "group": ("list_groups", {}, "name"),
    "volume": ("list_volumes", {}, "name"),
    "image": ("list_images", {}, "name"),
    "keypair": ("list_key_pairs", {}, "name"),
    "network": ("list_networks", {}, "name"),
    "snapshot": ("list_snapshots", {}, "name"),
    "volume_type": ("list_volume_types", {}, "name"),
    "pool": ("list_pools", {}, "name"),
    "project": ("list_quotas", {}, "project_id"),
}
#: Arguments, by their name in a parser, that take the name of an object.
_NAMES = {
    **{kind: kind for kind in KINDS},
    "without_host": "host",
    "like": "host",
    "key_name": "keypair",
    "source": "volume",
    "location": "pool",
}
#: Commands whose positional arguments name a new object.
_NEW = ("create",)


@dataclasses.dataclass(frozen=True)
class Known:
    """``words``: the next words after the beginning of a command. ``values``: by command and option the possible words,
    or ``@KIND``; the option "" stands for positional arguments.
    """

    words: Mapping[str, list[str]]
    options: Mapping[str, list[str]]
    values: Mapping[tuple[str, str], str]


def known(app: Any) -> Known:
    """Return everything that the program's parsers accept."""
    words: dict[str, set[str]] = {}
    options: dict[str, list[str]] = {"": _flags(app.parser)}
    values: dict[tuple[str, str], str] = {}
    for name, parser in _parsers(app):
        parts = name.split()
        for number in range(len(parts)):
            words.setdefault(" ".join(parts[:number]), set()).add(parts[number])
        options[name] = _flags(parser)
        for action in parser._actions:
            values.update({(name, flag): value for flag, value in _values(name, action)})
    return Known({each: sorted(found) for each, found in words.items()}, options, values)


def _parsers(app: Any) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for name, _entry in sorted(app.command_manager):
        factory, _, _ = app.command_manager.find_command(name.split())
        yield name, factory(app, None, cmd_name=name).get_parser(name)


def _flags(parser: argparse.ArgumentParser) -> list[str]:
    return sorted(flag for action in parser._actions for flag in action.option_strings if flag.startswith("--"))


def _values(command_name: str, action: argparse.Action) -> Iterator[tuple[str, str]]:
    if action.nargs == 0:
        return
    if action.choices:
        taken = " ".join(map(str, action.choices))
    elif action.dest in _NAMES and not (not action.option_strings and command_name.split()[-1] in _NEW):
        taken = f"@{_NAMES[action.dest]}"
    else:
        # An option with arbitrary values: offer nothing, instead of other options.
        taken = ""
    for flag in action.option_strings or [""]:
        if flag or taken:
            yield flag, taken


def bash(program: str, found: Known) -> str:
    """Return the script for bash, and for zsh with its bash module."""
    name = program.replace("-", "_")
    words = "".join(_case(each, " ".join(found.words[each])) for each in sorted(found.words))
    options = "".join(_case(each, " ".join(flags)) for each, flags in sorted(found.options.items()))
    values = "".join(
        _case(f"{each} {flag}".strip() if flag else f"{each} -", taken)
        for (each, flag), taken in sorted(found.values.items())
    )
    return _BASH.format(program=program, name=name, words=words, options=options, values=values)


def zsh(program: str, found: Known) -> str:
    return (
        f"autoload -U +X compinit && compinit -u\nautoload -U +X bashcompinit && bashcompinit\n{bash(program, found)}"
    )


def fish(program: str, found: Known) -> str:
    name = program.replace("-", "_")
    words = "".join(_fish_case(each, found.words[each]) for each in sorted(found.words))
    options = "".join(_fish_case(each, flags) for each, flags in sorted(found.options.items()))
    values = "".join(
        _fish_case(f"{each} {flag}" if flag else f"{each} -", taken.split())
        for (each, flag), taken in sorted(found.values.items())
    )
    return _FISH.format(program=program, name=name, words=words, options=options, values=values)


SHELLS: Mapping[str, Callable[[str, Known], str]] = {"bash": bash, "zsh": zsh, "fish": fish}


def _case(pattern: str, words: str) -> str:
    return f'    "{pattern}") echo "{words}" ;;\n'


def _fish_case(pattern: str, words: list[str]) -> str:
    return f"    case '{pattern}'\n      string join \\n -- {' '.join(words)}\n" if words else f"    case '{pattern}'\n"


class Complete(cliff_command.Command):
    """Print a completion script for a shell: source <(fleet complete); fleet complete --shell fish | source."""

    app: Any

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--shell", choices=sorted(SHELLS), default="bash", help="Default: %(default)s.")
        parser.add_argument("--names", choices=sorted(KINDS), help="Print the names of what there is, for the script.")
        return parser

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        if parsed_args.names:
            for each in names(self.app.connection, parsed_args.names):
                print(each, file=self.app.stdout)
            return
        print(SHELLS[parsed_args.shell](self.app.NAME, known(self.app)), file=self.app.stdout, end="")


def names(conductor: Any, kind: str) -> list[str]:
    """Return None if no conductor answers: a key press must not print errors into a command line."""
    method, arguments, field = KINDS[kind]
    try:
        with conductor.plain_failures(), conductor.impatient(_PATIENCE_S):
            found: list[Record] = conductor.operator.call(method, **arguments)
    except Exception:
        return []
    return sorted({str(each[field]) for each in found})


_BASH = """\
_{name}_words() {{
  case "$1" in
{words}  esac
}}
_{name}_options() {{
  case "$1" in
{options}  esac
}}
_{name}_values() {{
  case "$1" in
{values}    *) echo "?" ;;
  esac
}}
_{name}() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[COMP_CWORD-1]}}" command="" word next taken i name quoted
  for ((i = 1; i < COMP_CWORD; i++)); do
    word="${{COMP_WORDS[i]}}"
    next=" $(_{name}_words "$command") "
    [[ "$next" == *" $word "* ]] && command="${{command:+$command }}$word"
  done
  taken="?"
  [[ "$before" == -* ]] && taken="$(_{name}_values "$command $before")"
  if [[ "$taken" == "?" ]]; then
    if [[ "$cur" == -* ]]; then
      taken="$(_{name}_options "$command")"
    else
      taken="$(_{name}_words "$command")"
      [[ -z "$taken" ]] && taken="$(_{name}_values "$command -")"
      [[ "$taken" == "?" ]] && taken=""
    fi
  fi
  if [[ "$taken" != @* ]]; then
    COMPREPLY=($(compgen -W "$taken" -- "$cur"))
    return
  fi
  # Others have chosen the names: nothing in them may be expanded, neither here nor in the line that is completed.
  COMPREPLY=()
  while IFS= read -r name; do
    quoted="$(printf %q "$name")"
    [[ "$name" == "$cur"* || "$quoted" == "$cur"* ]] && COMPREPLY+=("$quoted")
  done < <({program} complete --names "${{taken#@}}" 2>/dev/null)
}}
complete -F _{name} {program}
"""

_FISH = """\
function __{name}_words
  switch "$argv[1]"
{words}  end
end
function __{name}_options
  switch "$argv[1]"
{options}  end
end
function __{name}_values
  switch "$argv[1]"
{values}    case '*'
      echo '?'
  end
end
function __{name}_complete
  set -l tokens (commandline -opc)
  set -l cur (commandline -ct)
  set -l command ''
  for word in $tokens[2..-1]
    if contains -- $word (__{name}_words "$command")
      set command (string trim -- "$command $word")
    end
  end
  set -l taken '?'
  if string match -q -- '-*' "$tokens[-1]"
    set taken (__{name}_values "$command $tokens[-1]")
  end
  if test "$taken" = '?'
    if string match -q -- '-*' "$cur"
      set taken (__{name}_options "$command")
    else
      set taken (__{name}_words "$command")
      if test -z "$taken"
        set taken (__{name}_values "$command -")
      end
      if test "$taken" = '?'
        set taken
      end
    end
  end
  for each in $taken
    if string match -q -- '@*' $each
      {program} complete --names (string sub -s 2 -- $each) 2>/dev/null
    else
      echo $each
    end
  end
end
complete -c {program} -f -a '(__{name}_complete)'
"""
