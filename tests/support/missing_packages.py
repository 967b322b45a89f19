"""Run code and commands as if packages were not installed."""

import subprocess
import sys

from seq2edge.errors import EXTRAS

BLOCK = """
import sys
class Block:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Block())
"""


def run_without(blocked: set[str], code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", BLOCK.format(blocked=blocked) + code, *map(str, arguments)]
    return subprocess.run(program, capture_output=True, text=True, check=False)


def command_without(blocked: set[str], *arguments: object) -> subprocess.CompletedProcess[str]:
    return run_without(blocked, "from seq2edge.cli.main import main; main(prog_name='seq2edge')", *arguments)


def packages_outside(*extras: str) -> set[str]:
    """Return the packages that none of these extras installs."""
    return {package for package, extra in EXTRAS.items() if extra not in extras}
