"""
The device that runs the models: an NVIDIA GPU as NVML describes it, otherwise the CPU.

NVML is read through ``pynvml`` (package nvidia-ml-py) where that is installed. Without it, or
without a driver, there is no GPU as far as we know, and the CPU is described; where the kernel has
NVIDIA's driver and the package is missing, nothing is said: a GPU is not to pass for a CPU.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
import importlib
import os
from pathlib import Path
import platform
from typing import Any

EXCLUSIVE, MIG, UNPARTITIONED_CPU = 'exclusive', 'mig', 'cpu'
EMERGENCIES = {'SwThermalSlowdown': 0x20, 'HwThermalSlowdown': 0x40, 'HwPowerBrakeSlowdown': 0x80}
"""Bits of NVML's reasons for slower clocks, ``nvmlClocksEventReason...``."""

_DRIVER = 'proc/driver/nvidia/version'


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """
    One device; ``None`` is what cannot be known.

    :ivar partition: ``exclusive``, ``mig``, ``mps`` or ``cpu``.
    """

    name: str | None = None
    compute_capability: str | None = None
    memory_mib: int | None = None
    driver: str | None = None
    partition: str | None = None


def load_nvml() -> Any:
    """Give the initialised module ``pynvml``, or ``None`` where there is none or no driver."""
    try:
        nvml: Any = importlib.import_module('pynvml')
        nvml.nvmlInit()
        return nvml
    except Exception:  # a module of another vendor's making may raise anything
        return None


def device_facts(*, is_local: bool, root: Path = Path('/'),
                 nvml: Callable[[], Any] = load_nvml) -> DeviceFacts:
    """
    Describe the device.

    :param is_local: whether the server runs on this host; of another host nothing is known.
    :param root: of the file system, for tests.
    """
    if not is_local:
        return DeviceFacts()
    library = nvml()
    if library is not None and _ask(library, 'nvmlDeviceGetCount'):
        return _gpu(library)
    if library is None and (root / _DRIVER).exists():
        return DeviceFacts()
    return DeviceFacts(name=_cpu_name(root), memory_mib=_memory_mib(root),
                       driver=f'linux {platform.release()}', partition=UNPARTITIONED_CPU)


def gpu_state(nvml: Callable[[], Any] = load_nvml) -> Mapping[str, str]:
    """Give what must not change of the GPUs while something is measured; empty without one."""
    library = nvml()
    if library is None:
        return {}
    state = {}
    for index in range(_ask(library, 'nvmlDeviceGetCount') or 0):
        handle = _ask(library, 'nvmlDeviceGetHandleByIndex', index)
        mode = _ask(library, 'nvmlDeviceGetMigMode', handle)
        throttle = _ask(library, 'nvmlDeviceGetCurrentClocksEventReasons', handle)
        if throttle is None:  # its name before driver 535
            throttle = _ask(library, 'nvmlDeviceGetCurrentClocksThrottleReasons', handle)
        limit = _ask(library, 'nvmlDeviceGetPowerManagementLimit', handle)
        if mode is not None:
            state[f'MIG of GPU {index}'] = 'on' if mode[0] else 'off'
        if limit is not None:
            state[f'power limit of GPU {index}'] = f'{limit} mW'
        if throttle is not None:
            state[f'throttling of GPU {index}'] = _throttling(throttle)
    return state


def _throttling(reasons: int) -> str:
    """Say whether heat or the power supply slows the GPU down; a power cap is its daily life."""
    return ', '.join(name for name, bit in EMERGENCIES.items() if reasons & bit) or 'none'


def _gpu(nvml: Any) -> DeviceFacts:
    handle = _ask(nvml, 'nvmlDeviceGetHandleByIndex', 0)
    capability = _ask(nvml, 'nvmlDeviceGetCudaComputeCapability', handle)
    memory = _ask(nvml, 'nvmlDeviceGetMemoryInfo', handle)
    mode = _ask(nvml, 'nvmlDeviceGetMigMode', handle)
    if mode is not None and mode[0]:
        partition = MIG
    else:
        partition = 'mps' if os.environ.get('CUDA_MPS_PIPE_DIRECTORY') else EXCLUSIVE
    return DeviceFacts(
        name=_as_text(_ask(nvml, 'nvmlDeviceGetName', handle)),
        compute_capability=None if capability is None else f'{capability[0]}.{capability[1]}',
        memory_mib=None if memory is None else int(memory.total) // 2**20,
        driver=_as_text(_ask(nvml, 'nvmlSystemGetDriverVersion')), partition=partition)


def _ask(nvml: Any, question: str, *arguments: Any) -> Any:
    """Answer ``None`` where this module, driver or device does not know."""
    try:
        return getattr(nvml, question)(*arguments)
    except Exception:  # NVMLError has a class for each code, and older modules lack some
        return None


def _as_text(value: Any) -> str | None:
    """Older versions of the module give bytes."""
    return value.decode(errors='replace') if isinstance(value, bytes) else value


def _cpu_name(root: Path) -> str | None:
    try:
        lines = (root / 'proc/cpuinfo').read_text(errors='replace').splitlines()
    except OSError:
        return None
    names = [value.strip() for key, _, value in (line.partition(':') for line in lines)
             if key.strip() in ('model name', 'Hardware', 'Model')]
    count = sum(line.partition(':')[0].strip() == 'processor' for line in lines)
    return f'{names[0]}, {count} cores' if names and count else None


def _memory_mib(root: Path) -> int | None:
    try:
        words = (root / 'proc/meminfo').read_text().split()
        return int(words[words.index('MemTotal:') + 1]) // 1024
    except (OSError, ValueError, IndexError):
        return None
