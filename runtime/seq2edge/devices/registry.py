"""Where a bundle can be computed: one entry for each kind of device.

To add a provider of onnxruntime, add an entry here: all else asks it.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seq2edge.bundle.bundle import Dialect, Manifest, Precision
from seq2edge.errors import BundleError, UsageError

AUTO = "auto"
HOST = "cpu"  # the memory that numpy sees
INSTEAD = "run  pip uninstall onnxruntime; pip install "  # packages of the same module


def _nothing(threads: int) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Device:
    """One kind of device: who computes on it, where its tensors live, and what it can run."""

    name: str
    provider: str  # onnxruntime's name for who computes
    memory: str = HOST  # onnxruntime's name for where bound tensors live
    plugin: str = ""  # module that brings the provider to an onnxruntime without it
    install: str  # how to get the provider
    wants: str  # besides that
    options: Callable[[int], dict[str, str]] = _nothing  # for so many threads; they make it compute in float32
    fixed_shapes: tuple[str, ...] = ()  # options that only work where no shape changes, which are refused
    dialects: tuple[Dialect, ...] = ("portable",)
    precisions: tuple[Precision, ...] = ("fp32", "fp16-compute", "fp16")  # the last is what is advised instead
    environment: Mapping[str, str] = field(
        default_factory=dict
    )  # what to set if it crashes with an illegal instruction

    @property
    def is_host(self) -> bool:
        """Whether its tensors are where numpy sees them."""
        return self.memory == HOST

    def check(self, manifest: Manifest) -> None:
        """Refuse a bundle that it cannot run, with the command that makes one that it can."""
        made = "seq2edge export CHECKPOINT BUNDLE"
        if manifest.dialect not in self.dialects:
            raise BundleError(
                f"the bundle is in the dialect {manifest.dialect!r}, but {self.name} runs {self.dialects[0]!r}: "
                f"make one with  {made} --dialect {self.dialects[0]} --precision {self._nearest(manifest.precision)}"
            )
        if manifest.precision not in self.precisions:
            raise BundleError(
                f"the bundle is in {manifest.precision}, but {self.name} runs {', '.join(self.precisions)}: "
                f"make one with  {made} --dialect {manifest.dialect} --precision {self._nearest(manifest.precision)}"
            )

    def _nearest(self, precision: Precision) -> Precision:
        return precision if precision in self.precisions else self.precisions[-1]


def _openvino(threads: int) -> dict[str, str]:
    """OpenVINO computes in bfloat16 by itself where the CPU can."""
    config = {"CPU": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}}
    return {"device_type": "CPU", "load_config": json.dumps(config)}


DEVICES = {
    device.name: device
    for device in (
        Device(
            name="cpu",
            provider="CPUExecutionProvider",
            install="run  pip install 'seq2edge[cpu]'",
            wants="nothing else",
            dialects=("ort", "portable"),
            # It widens fp16-compute again.
            precisions=("fp32", "fp16", "fp16-compute", "int8", "int8-blocks", "int4", "mixed"),
        ),
        Device(
            name="cuda",
            provider="CUDAExecutionProvider",
            memory="cuda",
            install=INSTEAD + "'seq2edge[cuda]'",
            wants="an NVIDIA GPU with its driver, CUDA and cuDNN",
            options=lambda threads: {"use_tf32": "0"},  # tensor cores would round float32 to 10 bits
            fixed_shapes=("enable_cuda_graph",),
        ),
        Device(
            name="tensorrt",
            provider="TensorrtExecutionProvider",
            memory="cuda",
            install=INSTEAD + "'seq2edge[cuda]'",
            # It has no option for it, so tensor cores are told by the environment to keep float32 whole.
            wants="an NVIDIA GPU with its driver, CUDA, cuDNN and TensorRT, and NVIDIA_TF32_OVERRIDE=0",
            fixed_shapes=("trt_cuda_graph_enable",),
        ),
        Device(
            name="openvino",
            provider="OpenVINOExecutionProvider",
            plugin="onnxruntime_ep_openvino",
            install=INSTEAD + "'seq2edge[openvino]', or on Intel hardware  pip install 'seq2edge[openvino-plugin]'",
            wants="an x86-64 CPU; the plugin wants Intel hardware",
            options=_openvino,
            precisions=("fp32", "fp16", "int8"),
            environment={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},  # its code for AMX dies on some virtual CPUs
        ),
        Device(
            name="webgpu",
            provider="WebGpuExecutionProvider",
            memory="webgpu",
            plugin="onnxruntime_ep_webgpu",
            install="run  pip install 'seq2edge[webgpu]'",
            wants="a GPU with a driver for Vulkan (and libvulkan.so.1), Direct3D 12 or Metal",
            fixed_shapes=("enableGraphCapture",),
        ),
        Device(
            name="coreml",
            provider="CoreMLExecutionProvider",
            install="it comes with onnxruntime on macOS",
            wants="macOS",
            # The older format, and the neural engine, compute in float16.
            options=lambda threads: {"ModelFormat": "MLProgram", "MLComputeUnits": "CPUAndGPU"},
            precisions=("fp32",),
        ),
        Device(
            name="directml",
            provider="DmlExecutionProvider",
            memory="dml",
            install=INSTEAD + "onnxruntime-directml",
            wants="Windows with a GPU for Direct3D 12",
            fixed_shapes=("enable_graph_capture",),
        ),
    )
}
CPU = DEVICES["cpu"]


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """Where to compute, as somebody asked for it."""

    device: str = "cpu"
    options: dict[str, str] = field(default_factory=dict)  # of its provider, over those of the device
    strict: bool = False  # that a node lands on another provider is an error

    @property
    def kind(self) -> Device:
        return device_named(self.device)


def device_named(name: str) -> Device:
    if name not in DEVICES:
        raise UsageError(f"there is no device {name!r}; there is {', '.join((AUTO, *DEVICES))}")
    return DEVICES[name]


def provider_options(device_config: DeviceConfig, threads: int) -> dict[str, str]:
    """What the provider is told; what only works with fixed shapes would give wrong results, so it is refused."""
    for name in device_config.kind.fixed_shapes:
        if device_config.options.get(name, "0").lower() not in ("0", "false"):
            raise UsageError(f"the option {name} needs shapes that never change, but the cache grows: leave it out")
    return {**device_config.kind.options(threads), **device_config.options}


def parse_options(pairs: tuple[str, ...]) -> dict[str, str]:
    """``("name=value",)`` as a command line has it."""
    wrong = [pair for pair in pairs if not pair.partition("=")[0] or "=" not in pair]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is no provider option: write  --provider-option NAME=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
