# SPDX-License-Identifier: Apache-2.0
"""``fleet keypair``: public keys that new guests accept.

Registered in :mod:`fleet_cli.command_list`. A key pair belongs to a user in a project.
"""

from __future__ import annotations

import argparse
import os
import pathlib
from collections.abc import Iterable

import oslo_messaging
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from fleet import errors
from fleet.client import argument_types
from fleet.client.connection import CommandFailed, Record
from fleet_cli.base import command, listing

COLUMNS = ("name", "type", "fingerprint", "public_key", "created_at")
_NAME = command.argument("keypair", help="Name.")
_DEFAULT = "Default: none, as of 'fleet boot'; with --url that of the user who signs in."
#: After these failures a private key that was just made is of no use. After a timeout its pair may be stored.
_NOT_STORED = (
    errors.FleetError,
    CommandFailed,
    oslo_messaging.MessageDeliveryFailure,
    oslo_messaging.MessageUndeliverable,
)
_OWNER = (
    command.argument("--project", metavar="ID", help=f"The project that it belongs to. {_DEFAULT}"),
    command.argument("--user", metavar="ID", help=f"The user that it belongs to. {_DEFAULT}"),
)


class ListKeyPairs(listing.List):
    """List the key pairs of a user."""

    arguments = _OWNER
    things = "key pairs"
    brief = ("name", "type", "fingerprint")
    whole = COLUMNS

    def records(self, parsed_args: argparse.Namespace) -> Iterable[Record]:
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        return self.conductor.operator.list_key_pairs()


class ShowKeyPair(command.ShowOne):
    """Show a key pair."""

    arguments = (_NAME, *_OWNER)

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        return command.one(COLUMNS, self.conductor.operator.show_key_pair(name=parsed_args.keypair))


class CreateKeyPair(command.ShowOne):
    """Store a public key for 'fleet boot --key-name': one that exists, or that of a new pair.

    Name one of --public-key, a file to read, and --private-key, a file to write: then a new pair is made here, and only
    its public half is sent.
    """

    arguments = (
        command.argument("name"),
        command.argument(
            "--public-key",
            type=argument_types.file,
            metavar="FILE",
            help="A public key that exists, in OpenSSH's form.",
        ),
        command.argument(
            "--private-key",
            metavar="FILE",
            help="Make a new pair, and write its private key here, for the file's owner only. The file must not exist.",
        ),
        *_OWNER,
    )

    def take_action(self, parsed_args: argparse.Namespace) -> tuple:
        if (parsed_args.public_key is None) == (parsed_args.private_key is None):
            raise CommandFailed("name one of --public-key FILE (a key that exists) and --private-key FILE (a new one)")
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        if parsed_args.public_key is not None:
            return self._store(parsed_args.name, parsed_args.public_key.decode(errors="replace"))
        path = pathlib.Path(parsed_args.private_key)
        public_key = _generated(path)
        try:
            return self._store(parsed_args.name, public_key)
        except _NOT_STORED:
            path.unlink(missing_ok=True)
            raise

    def _store(self, name: str, public_key: str) -> tuple:
        named = {"name": name, "public_key": public_key}
        return command.one(COLUMNS, self.conductor.operator.create_key_pair(key_pair=named))


class DeleteKeyPair(command.Command):
    """Delete a key pair. Instances that were built with it keep the public key."""

    arguments = (_NAME, *_OWNER)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.conductor.act_for(parsed_args.project, parsed_args.user)
        self.conductor.operator.delete_key_pair(name=parsed_args.keypair)


def _generated(path: pathlib.Path) -> str:
    """Write a new private key, and return its public half. :raises CommandFailed:"""
    key = ed25519.Ed25519PrivateKey.generate()
    form = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key.private_bytes(*form))
    except OSError as failure:
        raise CommandFailed(f"--private-key {path}: {failure.strerror}") from None
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return public.decode()
