"""Which device to take when nobody has named one.

A device is only taken if it ran some products faster than the CPU, by a margin: a step of a decoder has many small
ones, which cost a GPU more. Others that compute on the CPU are not taken by themselves: see docs/backends.md.
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
SLOW_TO_START = ("tensorrt",)  # it compiles for every shape, and here shapes change with every step


def resolve_device(
    device_config: DeviceConfig, manifest: Manifest, *, ask: "Callable[[Device], Probe] | None" = None
) -> DeviceConfig:
    """Return the device to use; for ``auto``, the fastest one that works and can run the bundle."""
    if device_config.device != AUTO:
        return device_config
    if device_config.options:
        raise UsageError("provider options are those of one device: name it with --device instead of auto")
    candidates = [device for device in own_memory() if _can_run(device, manifest)]
    tried = [CPU, *candidates] if candidates else []  # with none, there is nothing to compare the CPU with
    from seq2edge.devices.probe import probe  # which only this needs

    return replace(device_config, device=fastest({device: (ask or probe)(device) for device in tried}).name)


def own_memory() -> list[Device]:
    """The installed devices that are more than another way to use the CPU."""
    devices = [device for device in DEVICES.values() if not device.is_host and device.name not in SLOW_TO_START]
    return [device for device in devices if is_installed(device)]


def fastest(probes: "Mapping[Device, Probe]") -> Device:
    """The CPU, or the fastest device that is faster by a margin."""
    times = {device: found.milliseconds for device, found in probes.items() if found.works}
    known = {device: milliseconds for device, milliseconds in times.items() if milliseconds is not None}
    own = known.pop(CPU, float("inf"))
    best = min(known, key=lambda device: known[device], default=CPU)
    return best if best is not CPU and known[best] * MARGIN < own else CPU


def _can_run(device: Device, manifest: Manifest) -> bool:
    try:
        device.check(manifest)
    except BundleError:
        return False
    return True
