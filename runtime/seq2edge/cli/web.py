"""``seq2edge web``: make a static site that translates in the browser."""

from pathlib import Path

import click

from seq2edge.cli.click_options import signature_option

FOLDER = click.Path(path_type=Path)


@click.command()
@click.argument("bundles", type=FOLDER, nargs=-1, metavar="[BUNDLE...]")
@click.option("-o", "--output", type=FOLDER, required=True, help="Folder of the site.")
@click.option("--force", is_flag=True, help="Replace an existing site.")
@click.option(
    "--webgpu", is_flag=True, help="Use a visitor's GPU where it is measured to be faster (27 MB more to load)."
)
@click.option("--serve", is_flag=True, help="Serve the site on this machine, to look at it.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="Port of --serve; 0 is any free one."
)
@signature_option
def command(
    bundles: tuple[Path, ...],
    output: Path,
    force: bool,
    webgpu: bool,
    serve: bool,
    port: int,
    require_signature: Path | None,
) -> None:
    """Make a static site that translates in the browser with bundles (if omitted, the default model).

    Any web server can serve it, and after the first visit it works offline. ONNX Runtime Web comes from npm when the
    site is made. Bundles in int8 have the smallest download; they are widened to float32 when they are loaded.
    """
    from seq2edge.bundle.bundle import DEFAULT_BUNDLE
    from seq2edge.cli.progress import stages
    from seq2edge.web.server import serve_site
    from seq2edge.web.site import make_site

    with stages() as begin:
        site = make_site(
            bundles or (DEFAULT_BUNDLE,),
            output,
            force=force,
            webgpu=webgpu,
            require_signature=require_signature,
            report=begin,
        )
    click.echo(
        f"{site.folder}: {', '.join(site.bundles)}; a first visit loads {site.bytes / 1e6:.1f} MB, "
        f"{site.compressed_bytes / 1e6:.1f} MB compressed"
    )
    if serve:
        serve_site(output, port, lambda address: click.echo(f"serving {address} until Ctrl-C"))
