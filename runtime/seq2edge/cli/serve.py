"""``seq2edge serve``: translate over HTTP, with the API of LibreTranslate and a page."""

from typing import Any

import click

from seq2edge.cli.click_options import device_options, grouped_help, options_of, signature_option, take
from seq2edge.serve.settings import ServeSettings

GROUPS: dict[str, type | str] = {
    "Server": "host port page cors_origin proxies",
    "Translation": "threads workers merge max_loaded shortlist device provider_options strict_device require_signature",
    "Limits": "max_waiting max_characters max_body max_beams time_limit idle_limit api_keys rate",
}
EXAMPLES = {
    "": "the default model, at http://127.0.0.1:5000",
    "-m BUNDLE -m zh:en=OTHER --port 8080": "several bundles; name the languages of one that does not",
    "--host 0.0.0.0 --api-keys keys.txt --rate 60": "for others, with a key each and 60 requests a minute",
}
PREFIX = "SEQ2EDGE_SERVE"


@click.command(cls=grouped_help(GROUPS, EXAMPLES), context_settings={"auto_envvar_prefix": PREFIX})
@click.option(
    "-m", "--model", "models", multiple=True, metavar="[SRC:TGT=]BUNDLE", help="Bundle folder; can be repeated."
)
@device_options()
@signature_option
@click.option("--shortlist/--no-shortlist", default=True, help="Restrict the output to the bundle's shortlist, if any.")
@options_of(ServeSettings)
def command(models: tuple[str, ...], provider_options: tuple[str, ...], **values: Any) -> None:
    """Serve bundles over HTTP; without one, the default model.

    Every option can be set by an environment variable: --max-waiting is SEQ2EDGE_SERVE_MAX_WAITING. SIGTERM finishes
    what was begun, SIGHUP loads bundles and API keys that were replaced.
    """
    from seq2edge.bundle.bundle import DEFAULT_BUNDLE
    from seq2edge.devices.registry import parse_options
    from seq2edge.errors import UsageError
    from seq2edge.serve.server import serve

    try:
        settings = take(ServeSettings, values)
    except ValueError as error:
        raise UsageError(str(error)) from None
    serve([*models] or [str(DEFAULT_BUNDLE)], settings, provider_options=parse_options(provider_options), **values)
