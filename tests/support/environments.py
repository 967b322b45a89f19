"""Build the distribution, and install it in new environments with uv."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
SCRIPTS = "Scripts" if os.name == "nt" else "bin"


def run(*command: object, cwd: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=cwd, env=clean | environment
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build(target: str, source: Path, folder: Path) -> Path:
    """Build a wheel or an sdist."""
    run(sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder, cwd=source)
    return next(folder.glob("*.whl" if target == "wheel" else "*.tar.gz"))


def install(
    wheel: Path, folder: Path, *, extras: str = "cpu", python: str = sys.executable, lowest: bool = False
) -> Path:
    """Return the scripts folder of a new environment that holds the wheel with these extras and nothing else."""
    uv(folder.parent, "venv", "--quiet", "--python", python, folder)
    interpreter = folder / SCRIPTS / "python"
    pip = ["pip", "install", "--quiet", "--python", interpreter]
    if lowest:
        uv(folder, *pip, "--resolution", "lowest-direct", "--requirement", ROOT / "pyproject.toml", "--extra", extras)
    uv(folder, *pip, f"seq2edge[{extras}] @ {wheel.as_uri()}")
    return folder / SCRIPTS


def packages_of(scripts: Path) -> dict[str, str]:
    """Return name and version of what is installed."""
    lines = uv(scripts, "pip", "freeze", "--quiet", "--python", scripts / "python").lower().splitlines()
    return dict(line.replace(" @ ", "==").split("==") for line in lines)


def uv(cwd: Path, *arguments: object) -> str:
    return run(sys.executable, "-m", "uv", *arguments, cwd=cwd)
