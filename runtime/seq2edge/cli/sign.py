"""``seq2edge sign``: sign a bundle, or make the keys for it."""

from pathlib import Path

import click

FILE = click.Path(path_type=Path)


@click.command()
@click.argument("bundle", type=FILE, required=False)
@click.option("--key", type=FILE, help="The private key to sign with.")
@click.option(
    "--new-key", type=FILE, metavar="FILE", help="Write a new private key to FILE, the public one to FILE.pub."
)
def command(bundle: Path | None, key: Path | None, new_key: Path | None) -> None:
    """Sign BUNDLE with a private key, after a look at all its files.

    Whoever has the public key can then ask for the signature with --require-signature, and runs nothing that was
    changed or made by others. Keys are Ed25519 in PEM, as openssl makes them too.
    """
    from seq2edge.bundle.bundle import load_bundle
    from seq2edge.bundle.signing import make_keys, sign_manifest
    from seq2edge.errors import UsageError

    if new_key is not None and (bundle is not None or key is not None):
        raise UsageError("--new-key only makes keys: call the command again to sign")
    if new_key is not None:
        public = make_keys(new_key)
        click.echo(f"{new_key}: keep it secret; {public}: give it to whoever runs your bundles")
        return
    if bundle is None or key is None:
        raise UsageError("name a bundle and the private key to sign it with (--key), or make keys with --new-key")
    load_bundle(bundle)
    click.echo(f"{sign_manifest(bundle, key)}: signed")
