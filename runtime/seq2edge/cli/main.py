"""The ``seq2edge`` command: a table of commands, each loaded only when it is called."""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from seq2edge import __version__
from seq2edge.errors import DataError, MissingExtraError, Seq2EdgeError


@dataclass(frozen=True)
class Entry:
    """Where a command lives and what ``--help`` says of it, so that help need not load it."""

    module: str
    summary: str


COMMANDS = {
    "translate": Entry("seq2edge.cli.translate", "Translate text with a bundle."),
    "score": Entry("seq2edge.cli.score", "Say how likely given translations are."),
    "inspect": Entry("seq2edge.cli.inspect", "Show what a bundle or an ONNX file holds and costs."),
    "sign": Entry("seq2edge.cli.sign", "Sign a bundle, so that its users can tell whose it is."),
    "bench": Entry("seq2edge.cli.bench", "Measure bundles, also beside other tools."),
    "doctor": Entry("seq2edge.cli.doctor", "Find out which devices work here, and what to run how."),
    "recipe": Entry("seq2edge_export.cli.recipe", "Draft the recipe of a PyTorch state dict, to export it."),
    "export": Entry("seq2edge_export.cli.export", "Turn a checkpoint into a bundle."),
    "quantize": Entry("seq2edge_graphs.cli.quantize", "Make a bundle in fewer bits from one in float32."),
    "shortlist": Entry("seq2edge_graphs.cli.shortlist", "Make a bundle faster by lists of words to choose from."),
    "verify": Entry("seq2edge_export.cli.verify", "Prove that a bundle says what its checkpoint says."),
    "train": Entry("seq2edge_export.cli.train", "Train a small translation model."),
}

OUT_OF_MEMORY = "there is not enough memory: take a smaller model or smaller batches, or fewer workers"
OUT_OF_MEMORY_LINE = f"Error: {OUT_OF_MEMORY}\n".encode()
# how PyTorch, Python and the system say it
NO_MEMORY = ("allocate memory", "bad_alloc", "can't start new thread", "failed to map segment")
TERMINATED = 128 + 15  # what a shell says of a command that SIGTERM has ended
INTERRUPTED = 130  # what a shell says of a command that Ctrl-C has ended

# Which extra brings a package that a command may miss.
EXTRAS = {
    "onnxruntime": "cpu",
    "cryptography": "sign",
    "torch": "export",
    "safetensors": "export",
    "sacrebleu": "export",
    "rich": "export",
    "matplotlib": "export",
    "onnx": "export",
    "onnx_ir": "export",
    "onnxscript": "export",
    "ctranslate2": "bench",
    "transformers": "bench",
}


class CommandTable(click.Group):
    """A group that knows its commands by name and loads one when it is wanted."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and exit; from here on signals end it as a shell expects, also while it is being loaded."""
        with suppress(ValueError):  # not in the main thread of another program
            signal.signal(signal.SIGTERM, _terminate)
        run: Callable[..., int | None] = super().main
        if not standalone_mode:
            return run(*arguments, **extra, standalone_mode=False)
        try:
            sys.exit(run(*arguments, **extra, standalone_mode=False))
        except click.Abort as error:  # click has heard Ctrl-C, and ended the line
            _stop(error.__cause__ or error.__context__)
        except KeyboardInterrupt as error:
            _stop(error)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name].module).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> None:
        """Turn our errors, and packages that are missing, into one sentence and an exit code."""
        try:
            self._invoke(ctx)
        except MemoryError:  # also one that came while another error was told: no memory is asked for to say so
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, OUT_OF_MEMORY_LINE)
            ctx.exit(DataError.exit_code)

    def _invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
        except Seq2EdgeError as error:
            _refuse(ctx, error)
        except BrokenPipeError:  # whoever read our output has seen enough
            raise
        except OSError as error:
            _refuse(ctx, DataError(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}"))
        except EOFError as error:  # which click would take for Ctrl-C
            _refuse(ctx, DataError(f"a file ended before all of it was read ({error})"))
        except ModuleNotFoundError as error:
            package = (error.name or "").split(".")[0]
            if package not in EXTRAS:
                raise
            _refuse(ctx, MissingExtraError(package, EXTRAS[package]))
        except (RuntimeError, ImportError) as error:
            if isinstance(error.__cause__, KeyboardInterrupt | SystemExit):  # a signal while C++ was loading a library
                raise error.__cause__ from None
            if not any(words in str(error) for words in NO_MEMORY):
                raise
            _refuse(ctx, DataError(OUT_OF_MEMORY))


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="seq2edge")
def main() -> None:
    """Take a PyTorch-trained encoder-decoder Transformer to any machine."""
    for stream in (sys.stdout, sys.stderr):  # text is UTF-8 here, whatever the locale says
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")


def _terminate(number: int, frame: object) -> NoReturn:
    """End as Ctrl-C does, so that what is half done is removed."""
    sys.exit(TERMINATED)


def _stop(why: BaseException | None) -> NoReturn:
    click.echo("; ".join(["stopped", *map(str, why.args if why else ())]), err=True)
    sys.exit(INTERRUPTED)


def _refuse(ctx: click.Context, error: Seq2EdgeError) -> NoReturn:
    text = "".join(letter if letter.isprintable() else " " for letter in str(error))  # it may come from a file
    click.echo(f"Error: {text}", err=True)
    ctx.exit(error.exit_code)
