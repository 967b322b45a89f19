"""What the build computes: the version from the latest tag, and a README whose links work on a package index."""

import re
import subprocess
from email import message_from_string
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent
REPOSITORY = "https://github.com/seq2edge/seq2edge"
RAW = REPOSITORY.replace("github.com", "raw.githubusercontent.com")
NO_TAG = "0.1.0.dev0"  # the version of a checkout without tags or without git
LINK = re.compile(r"(!?)\[([^]]*)]\((?!https?:|#)([^)]+)\)")


def version(root: Path = ROOT) -> str:
    """Return the version of the sdist or of the tag; commits after a tag count towards the next patch release."""
    if (root / "PKG-INFO").exists():
        return str(message_from_string((root / "PKG-INFO").read_text(encoding="utf-8"))["Version"])
    if not (root / ".git").exists():  # git would find the tags of a repository around this folder
        return NO_TAG
    command = ["git", "describe", "--tags", "--long", "--match", "v[0-9]*"]
    try:
        described = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return NO_TAG
    tag, commits, _ = described.removeprefix("v").rsplit("-", 2)
    if commits == "0":
        return tag
    *first, patch = tag.split(".")
    return f"{'.'.join(first)}.{int(patch) + 1}.dev{commits}"


def linked(readme: str, release: str) -> str:
    """Make the links of the README absolute, to the files of the release."""
    ref = "main" if "dev" in release else f"v{release}"
    return LINK.sub(lambda found: _absolute(*found.groups(), ref=ref), readme)


def _absolute(image: str, text: str, target: str, *, ref: str) -> str:
    return f"{image}[{text}]({f'{RAW}/{ref}' if image else f'{REPOSITORY}/blob/{ref}'}/{target})"


class ReadmeHook(MetadataHookInterface):
    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        content = linked(text, version(Path(self.root)))
        metadata["readme"] = {"content-type": "text/markdown", "text": content}
