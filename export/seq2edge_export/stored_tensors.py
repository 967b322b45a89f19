"""Tensors that stay in their files until they are asked for; needs torch and safetensors."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from torch import Tensor

from seq2edge_export.state_dict import StateDict, is_mapped, read_state_dict

WINDOW = 2**26  # bytes to look at before a file is closed and opened again


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of some files by name, each read anew whenever it is looked up.

    A mapped file counts as memory as far as it was looked at, until the last of its tensors is forgotten; so whoever
    looks up one after the other never holds much more than that one.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        self.places = {name: (file, name) for file in files for name in read_state_dict(file)}
        self.changed: StateDict = {}
        self._open: tuple[Path, StateDict] | None = None
        self._looked_at = 0

    def __getitem__(self, name: str) -> Tensor:
        if name in self.changed:
            return self.changed[name]
        file, stored = self.places[name]
        tensor = self._content(file)[stored]
        self._looked_at += tensor.nbytes
        return tensor

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)

    def rename(self, names: Mapping[str, str]) -> None:
        """Keep the tensors that ``names`` has, each under the name that it gives."""
        self.places = {names[name]: place for name, place in self.places.items() if name in names}

    def change(self, name: str, tensor: Tensor | None) -> None:
        """Put another tensor in the place of a stored one, or take it away."""
        if tensor is None:
            del self.places[name]
        else:
            self.changed[name] = tensor

    def _content(self, file: Path) -> StateDict:
        full = self._looked_at > WINDOW and is_mapped(file)
        if self._open is None or self._open[0] != file or full:
            self._open = None  # before it is opened again
            self._open, self._looked_at = (file, read_state_dict(file)), 0
        return self._open[1]
