"""Choose the device for ``--device auto``.

A device is chosen only if it runs a trial of matrix products faster than the CPU by a margin, because a decoder step
has many small products, which are relatively slow on a GPU. Other providers that compute on the CPU are never chosen:
see docs/backends.md.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from seq2edge.bundle.bundle import Manifest
from seq2edge.devices.execution_providers import is_installed
from seq2edge.devices.registry import AUTO, CPU, DEVICES, Device, DeviceConfig
from seq2edge.errors import BundleError, UsageError

if TYPE_CHECKING:
    from seq2edge.devices.probe import Probe

MARGIN = 2.0  # times faster than the CPU
SLOW_TO_START = ("tensorrt",)  # compiles for every shape, and shapes change with every step


def resolve_device(
    device_config: DeviceConfig, manifest: Manifest, *, try_device: "Callable[[Device], Probe] | None" = None
) -> DeviceConfig:
    """Return the device to use; for ``auto``, the fastest one that works and can run the bundle."""
    if device_config.device != AUTO:
        return device_config
    if device_config.options:
        raise UsageError("provider options need a specific device: name it with --device instead of auto")
    candidates = [device for device in accelerators() if _can_run(device, manifest)]
    tried = [CPU, *candidates] if candidates else []  # without candidates, the CPU need not be tried
    from seq2edge.devices.probe import probe  # only needed here

    return replace(device_config, device=fastest({device: (try_device or probe)(device) for device in tried}).name)


def accelerators() -> list[Device]:
    """Return the installed devices that have their own memory, and so do not compute on the CPU."""
    devices = [device for device in DEVICES.values() if not device.is_host and device.name not in SLOW_TO_START]
    return [device for device in devices if is_installed(device)]


def fastest(probes: "Mapping[Device, Probe]") -> Device:
    """Return the fastest device that is faster than the CPU by a margin, or the CPU."""
    measured = {device: probe.milliseconds for device, probe in probes.items() if probe.works}
    times = {device: milliseconds for device, milliseconds in measured.items() if milliseconds is not None}
    cpu_time = times.pop(CPU, float("inf"))
    best = min(times, key=lambda device: times[device], default=CPU)
    return best if best is not CPU and times[best] * MARGIN < cpu_time else CPU


def _can_run(device: Device, manifest: Manifest) -> bool:
    try:
        device.check(manifest)
    except BundleError:
        return False
    return True
