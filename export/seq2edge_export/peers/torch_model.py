"""Any checkpoint for PyTorch: as a folder for transformers where it can be that, otherwise as it is.

transformers comes with the extra ``bench``.
"""

from importlib.metadata import version

from seq2edge.bench.system import SystemPlan
from seq2edge.errors import MissingExtraError
from seq2edge_export.peers.hugging_face import inexpressible, write_folder
from seq2edge_export.peers.interface import PeerRequest, folder_size
from seq2edge_export.peers.torch import OWN


def prepare(request: PeerRequest) -> list[SystemPlan]:
    """A folder for transformers, or the checkpoint itself."""
    torch_version = f"torch {version('torch')}"
    if inexpressible(request.model.shape):
        path, tool = request.checkpoint, f"{torch_version}, {OWN}"
    else:
        write_folder(request.original, request.folder)
        path, tool = request.folder, f"{torch_version}, transformers {_transformers_version()}"
    plan = SystemPlan(name="torch", kind="torch", path=str(path), precision="fp32", size=folder_size(path), tool=tool)
    return [plan]


def _transformers_version() -> str:
    try:
        import transformers
    except ModuleNotFoundError:
        raise MissingExtraError("transformers", "bench") from None
    return str(transformers.__version__)
