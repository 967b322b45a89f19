"""``seq2edge verify``: compare a bundle with its source model."""

from pathlib import Path

import click

from seq2edge.cli.click_options import device_options, grouped_help, signature_option

GROUPS = {"Device": "device provider_options strict_device require_signature"}
EXAMPLES = {
    "BUNDLE --against CHECKPOINT": "on built-in sentences",
    "BUNDLE --against CHECKPOINT --input dev.en --reference dev.pt": "on own sentences, also BLEU and chrF",
}

tokenizer_option = click.option(
    "--tokenizer",
    default="",
    metavar="TOKENIZER",
    help="How to split texts into tokens, for vocabularies without their tokenizer (CTranslate2, fairseq, Marian, "
    "OpenNMT): spaces, characters, bpe:CODES or spm:MODEL; two files are for source and target, spm:SOURCE,TARGET.",
)


@click.command(cls=grouped_help(GROUPS, EXAMPLES))
@click.argument("bundle", type=click.Path(path_type=Path))
@click.option("--against", type=click.Path(path_type=Path), required=True, help="Checkpoint that it was exported from.")
@click.option("--input", "source", type=click.Path(path_type=Path), help="Sentences to compare on, one per line.")
@click.option("--reference", type=click.Path(path_type=Path), help="Translations of --input, for BLEU and chrF.")
@tokenizer_option
@device_options()
@click.option("--json", "as_json", is_flag=True, help="Print the verdict as JSON.")
@signature_option
def command(
    bundle: Path,
    against: Path,
    source: Path | None,
    reference: Path | None,
    tokenizer: str,
    device: str,
    provider_options: tuple[str, ...],
    strict_device: bool,
    as_json: bool,
    require_signature: Path | None,
) -> None:
    """Compare BUNDLE with the PyTorch model it was exported from; exit with code 1 if they differ."""
    from seq2edge_export.weight_offload import release_large_blocks

    release_large_blocks()
    from seq2edge.bundle.bundle import load_bundle
    from seq2edge.cli.progress import stages
    from seq2edge.devices.auto import resolve_device
    from seq2edge.devices.registry import DeviceConfig, parse_options
    from seq2edge.errors import ParityError
    from seq2edge.files.lines import show_line
    from seq2edge_export.loaders import load_checkpoint
    from seq2edge_export.verify import as_table, to_json, verify
    from seq2edge_export.weight_offload import offload_weights
    from seq2edge_graphs.parity.sentences import read_texts

    texts, references = read_texts(source, reference)
    loaded = load_bundle(bundle, require_signature=require_signature)
    requested = DeviceConfig(device=device, options=parse_options(provider_options), strict=strict_device)
    device_config = resolve_device(requested, loaded.manifest)
    with stages() as stage:
        stage("reading the checkpoint")
        source_model = load_checkpoint(against, tokenizer=tokenizer).source_model()
        stage("comparing")
        with offload_weights(source_model.graphs) as release:
            verdict = verify(
                loaded, source_model, texts=texts, references=references, device_config=device_config, release=release
            )
    show_line(to_json(verdict) if as_json else as_table(verdict))
    if not verdict.passed:
        raise ParityError(str(verdict))
