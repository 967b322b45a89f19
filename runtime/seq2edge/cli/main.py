"""The ``seq2edge`` command: a table of commands that are imported only when called."""

import importlib
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn

import click

from seq2edge.devices.interruption import stop_runs_at_signals
from seq2edge.errors import DataError, Seq2EdgeError, UsageError, imports_of_extras


@dataclass(frozen=True)
class Entry:
    """The module of a command, and its summary, so that ``--help`` need not import it."""

    module: str
    summary: str


COMMANDS = {
    "translate": Entry("seq2edge.cli.translate", "Translate text with a bundle."),
    "corpus": Entry("seq2edge.cli.corpus", "Translate large corpora, on one machine or on a Ray cluster."),
    "serve": Entry("seq2edge.cli.serve", "Translate over HTTP, with LibreTranslate's API and a page."),
    "score": Entry("seq2edge.cli.score", "Score given translations."),
    "inspect": Entry("seq2edge.cli.inspect", "Show the contents and cost of a bundle or an ONNX file."),
    "explain": Entry("seq2edge.cli.explain", "Show on a page what a model does with a sentence."),
    "sign": Entry("seq2edge.cli.sign", "Sign a bundle, so that users can verify its origin."),
    "bench": Entry("seq2edge.cli.bench", "Measure bundles, also compared with other tools."),
    "doctor": Entry("seq2edge.cli.doctor", "Show which devices work on this machine, and recommend settings."),
    "web": Entry("seq2edge.cli.web", "Make a site that translates in the browser."),
    "recipe": Entry("seq2edge_export.cli.recipe", "Draft a recipe to export a PyTorch state dict."),
    "export": Entry("seq2edge_export.cli.export", "Export a checkpoint as a bundle."),
    "quantize": Entry("seq2edge_graphs.cli.quantize", "Quantize a float32 bundle."),
    "shortlist": Entry(
        "seq2edge_graphs.cli.shortlist", "Add a shortlist of target tokens, which makes a bundle faster."
    ),
    "verify": Entry("seq2edge_export.cli.verify", "Verify that a bundle gives the same results as its checkpoint."),
    "train": Entry("seq2edge_export.cli.train", "Train a small translation model."),
    "distill": Entry("seq2edge_export.cli.distill", "Train a small model on what a good one translates."),
}

OUT_OF_MEMORY = "there is not enough memory: use a smaller model, smaller batches or fewer workers"
OUT_OF_MEMORY_LINE = f"Error: {OUT_OF_MEMORY}\n".encode()
# in messages of PyTorch, Python and the system
NO_MEMORY = ("allocate memory", "bad_alloc", "can't start new thread", "failed to map segment")
TERMINATED = 128 + 15  # exit code of a shell for a command ended by SIGTERM
INTERRUPTED = 130  # exit code of a shell for a command ended by Ctrl-C


class CommandTable(click.Group):
    """A group that imports a command when it is called."""

    def main(self, *arguments: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a command and exit; signals give the exit codes that a shell expects, also during imports."""
        with suppress(ValueError):  # not in the main thread of another program
            signal.signal(signal.SIGTERM, _terminate)
        run: Callable[..., int | None] = super().main
        if not standalone_mode:
            return run(*arguments, **extra, standalone_mode=False)
        try:
            with stop_runs_at_signals():
                sys.exit(run(*arguments, **extra, standalone_mode=False))
        except click.Abort as error:  # click has caught Ctrl-C
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the command that was probably meant."""
        if args[0] not in COMMANDS:
            from difflib import get_close_matches

            for similar in get_close_matches(args[0], COMMANDS, n=1):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {similar!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> None:
        """Turn our errors and missing packages into one sentence and an exit code."""
        try:
            self._invoke(ctx)
        except MemoryError:  # also while another error was reported; write without allocating memory
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, OUT_OF_MEMORY_LINE)
            ctx.exit(DataError.exit_code)

    def _invoke(self, ctx: click.Context) -> None:
        try:
            with imports_of_extras():
                super().invoke(ctx)
        except Seq2EdgeError as error:
            _refuse(ctx, error)
        except BrokenPipeError:  # the reader of our output has closed it
            raise
        except OSError as error:
            _refuse(ctx, DataError(f"{error.filename or 'a file'} cannot be used: {error.strerror or error}"))
        except EOFError as error:  # click would treat it as Ctrl-C
            _refuse(ctx, DataError(f"a file ended before all of it was read ({error})"))
        except (RuntimeError, ImportError) as error:
            if isinstance(error.__cause__, KeyboardInterrupt | SystemExit):  # a signal while a C++ library was loading
                raise error.__cause__ from None
            if not any(phrase in str(error) for phrase in NO_MEMORY):
                raise
            _refuse(ctx, DataError(OUT_OF_MEMORY))


@click.group(cls=CommandTable, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="seq2edge", prog_name="seq2edge")
def main() -> None:
    """Export PyTorch encoder-decoder Transformers to ONNX, and run them on any machine."""
    for stream in (sys.stdout, sys.stderr):  # UTF-8 in any locale
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")


def run_process() -> NoReturn:
    """Run a command as a process of its own, and end it without taking the model and the libraries apart.

    The system frees their memory in a fraction of the time, which is noticeable if little was translated.
    """
    try:
        main(prog_name="seq2edge")
    except SystemExit as stop:
        if isinstance(stop.code, int | None) and "torch" not in sys.modules:  # which has more to do at the end
            with suppress(OSError):  # the reader of our output has closed it: Python knows what to do
                for stream in filter(None, (sys.stdout, sys.stderr)):  # None if it was closed before
                    stream.flush()
                os._exit(stop.code or 0)
        raise
    raise AssertionError("a click command ends with SystemExit")


def _terminate(number: int, frame: object) -> NoReturn:
    """Exit like Ctrl-C, so that incomplete files are removed."""
    sys.exit(TERMINATED)


def _stop(cause: BaseException | None) -> NoReturn:
    click.echo("; ".join(["stopped", *map(str, cause.args if cause else ())]), err=True)
    sys.exit(INTERRUPTED)


def _refuse(ctx: click.Context, error: Seq2EdgeError) -> NoReturn:
    message = str(error)
    if isinstance(error, UsageError | DataError) and ctx.invoked_subcommand in COMMANDS:
        from seq2edge.cli.click_options import as_options

        command = importlib.import_module(COMMANDS[ctx.invoked_subcommand].module).command
        message = as_options(message, [flag for param in command.params for flag in param.opts if flag[:2] == "--"])
    text = "".join(letter if letter.isprintable() else " " for letter in message)  # names in it may come from a file
    click.echo(f"Error: {text}", err=True)
    ctx.exit(error.exit_code)
