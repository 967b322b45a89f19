"""The table of devices that bundles run on.

To support another execution provider of onnxruntime, add an entry here.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from seq2edge.bundle.bundle import Dialect, Manifest, Precision
from seq2edge.errors import BundleError, UsageError

AUTO = "auto"
HOST = "cpu"  # the memory that numpy uses
INSTEAD = "run  pip uninstall onnxruntime; pip install "  # these packages share a module


def _nothing(threads: int) -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True, eq=False)
class Device:
    """A type of device: its execution provider, its memory, and the bundles that it can run."""

    name: str
    provider: str  # onnxruntime's name of the execution provider
    memory: str = HOST  # onnxruntime's name of the memory of bound tensors
    plugin: str = ""  # module that adds the provider to an onnxruntime without it
    install: str  # how to install the provider
    requires: str  # hardware and other software
    options: Callable[[int], dict[str, str]] = _nothing  # of the provider, for a number of threads: compute in float32
    fixed_shapes: tuple[str, ...] = ()  # refused options: they only work if no shape changes
    dialects: tuple[Dialect, ...] = ("portable",)
    precisions: tuple[Precision, ...] = ("fp32", "fp16-compute", "fp16")  # the last one is the advice for other bundles
    environment: Mapping[str, str] = field(default_factory=dict)  # workaround for crashes with an illegal instruction

    @property
    def is_host(self) -> bool:
        """Whether its tensors are in the memory that numpy uses."""
        return self.memory == HOST

    def check(self, manifest: Manifest) -> None:
        """Raise an error if the device cannot run a bundle, with the command that exports one that it can."""
        export = "seq2edge export CHECKPOINT BUNDLE"
        if manifest.dialect not in self.dialects:
            raise BundleError(
                f"the bundle is in the dialect {manifest.dialect!r}, but {self.name} runs {self.dialects[0]!r}: "
                f"run  {export} --dialect {self.dialects[0]} --precision {self._nearest(manifest.precision)}"
            )
        if manifest.precision not in self.precisions:
            raise BundleError(
                f"the bundle is in {manifest.precision}, but {self.name} runs {', '.join(self.precisions)}: "
                f"run  {export} --dialect {manifest.dialect} --precision {self._nearest(manifest.precision)}"
            )

    def _nearest(self, precision: Precision) -> Precision:
        return precision if precision in self.precisions else self.precisions[-1]


def _openvino(threads: int) -> dict[str, str]:
    """Set float32, because OpenVINO computes in bfloat16 by default on CPUs that have it."""
    config = {"CPU": {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": str(threads)}}
    return {"device_type": "CPU", "load_config": json.dumps(config)}


DEVICES = {
    device.name: device
    for device in (
        Device(
            name="cpu",
            provider="CPUExecutionProvider",
            install="run  pip install 'seq2edge[cpu]'",
            requires="nothing else",
            dialects=("ort", "portable"),
            # onnxruntime converts fp16-compute to float32.
            precisions=("fp32", "fp16", "fp16-compute", "int8", "int4", "mixed"),
        ),
        Device(
            name="cuda",
            provider="CUDAExecutionProvider",
            memory="cuda",
            install=INSTEAD + "'seq2edge[cuda]'",
            requires="an NVIDIA GPU with its driver, CUDA and cuDNN",
            options=lambda threads: {"use_tf32": "0"},  # tensor cores would round float32 to 10 bits
            fixed_shapes=("enable_cuda_graph",),
        ),
        Device(
            name="tensorrt",
            provider="TensorrtExecutionProvider",
            memory="cuda",
            install=INSTEAD + "'seq2edge[cuda]'",
            # It has no option to turn off TF32, only the environment variable.
            requires="an NVIDIA GPU with its driver, CUDA, cuDNN and TensorRT, and NVIDIA_TF32_OVERRIDE=0",
            fixed_shapes=("trt_cuda_graph_enable",),
        ),
        Device(
            name="openvino",
            provider="OpenVINOExecutionProvider",
            plugin="onnxruntime_ep_openvino",
            install=INSTEAD + "'seq2edge[openvino]', or on Intel hardware  pip install 'seq2edge[openvino-plugin]'",
            requires="an x86-64 CPU; the plugin requires Intel hardware",
            options=_openvino,
            precisions=("fp32", "fp16", "int8"),
            environment={"ONEDNN_MAX_CPU_ISA": "AVX512_CORE"},  # its AMX code crashes on some virtual CPUs
        ),
        Device(
            name="webgpu",
            provider="WebGpuExecutionProvider",
            memory="webgpu",
            plugin="onnxruntime_ep_webgpu",
            install="run  pip install 'seq2edge[webgpu]'",
            requires="a GPU with a driver for Vulkan (and libvulkan.so.1), Direct3D 12 or Metal",
            fixed_shapes=("enableGraphCapture",),
        ),
        Device(
            name="coreml",
            provider="CoreMLExecutionProvider",
            install="it comes with onnxruntime on macOS",
            requires="macOS",
            # The older format, and the neural engine, compute in float16.
            options=lambda threads: {"ModelFormat": "MLProgram", "MLComputeUnits": "CPUAndGPU"},
            precisions=("fp32",),
        ),
        Device(
            name="directml",
            provider="DmlExecutionProvider",
            memory="dml",
            install=INSTEAD + "onnxruntime-directml",
            requires="Windows with a GPU for Direct3D 12",
            fixed_shapes=("enable_graph_capture",),
        ),
    )
}
CPU = DEVICES["cpu"]


@dataclass(frozen=True, kw_only=True)
class DeviceConfig:
    """The device to compute on, with options."""

    device: str = "cpu"
    options: dict[str, str] = field(default_factory=dict)  # of its provider, overriding those of the device
    strict: bool = False  # a node on another provider is an error

    @property
    def kind(self) -> Device:
        return device_named(self.device)


def device_named(name: str) -> Device:
    if name not in DEVICES:
        raise UsageError(f"there is no device {name!r}; choose from {', '.join((AUTO, *DEVICES))}")
    return DEVICES[name]


def provider_options(device_config: DeviceConfig, threads: int) -> dict[str, str]:
    """Return the options of the provider; refuse those for fixed shapes, which would give wrong results."""
    if device_config.kind is CPU and device_config.options:  # onnxruntime would ignore them
        names = ", ".join(device_config.options)
        raise UsageError(f"the CPU provider has no options, but got {names}: leave them out, or name another device")
    for name in device_config.kind.fixed_shapes:
        if device_config.options.get(name, "0").lower() not in ("0", "false"):
            raise UsageError(f"the option {name} needs shapes that never change, but the KV cache grows: leave it out")
    return {**device_config.kind.options(threads), **device_config.options}


def parse_options(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parse options of the form ``name=value`` from the command line."""
    wrong = [pair for pair in pairs if not pair.partition("=")[0] or "=" not in pair]
    if wrong:
        raise UsageError(f"{wrong[0]!r} is not a provider option: write  --provider-option NAME=VALUE")
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}
