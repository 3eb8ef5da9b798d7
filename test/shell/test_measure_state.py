"""What the machine tells about itself, and which changes spoil a measurement."""

import inspect
import types

import pytest

from vig_governor.backend.calls import ModelCounts
from vig_governor.measure.hardware import (
    device_facts, DeviceFacts, EMERGENCIES, gpu_state, load_nvml,
)
from vig_governor.measure.state import (
    changes_between, MachineState, read_state, server_changes, settled_counts,
)

CPUINFO = 'processor\t: 0\nmodel name\t: Test CPU 9\n\nprocessor\t: 1\nmodel name\t: Test CPU 9\n'


def write(root, path, text):
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def no_gpu():
    return {}


@pytest.fixture
def machine(tmp_path):
    write(tmp_path, 'sys/devices/system/cpu/online', '0-1\n')
    for core in (0, 1):
        at = f'sys/devices/system/cpu/cpu{core}'
        write(tmp_path, f'{at}/cpufreq/scaling_governor', 'performance\n')
        write(tmp_path, f'{at}/thermal_throttle/core_throttle_count', '3\n')
    write(tmp_path, 'proc/stat', 'cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 1\n')
    write(tmp_path, 'proc/cpuinfo', CPUINFO)
    write(tmp_path, 'proc/meminfo', 'MemTotal:        2048000 kB\nMemFree: 1 kB\n')
    return tmp_path


def test_nothing_changed_is_no_reason(machine):
    assert changes_between(read_state(machine, no_gpu), read_state(machine, no_gpu)) == ()


@pytest.mark.parametrize('path, text, words', [
    ('sys/devices/system/cpu/online', '0', 'cores online changed from 0-1 to 0'),
    ('sys/devices/system/cpu/cpu0/cpufreq/scaling_governor', 'powersave',
     'clock governor changed from performance to performance, powersave'),
    ('sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count', '5',
     'times the CPU was throttled changed from 6 to 8'),
    ('proc/stat', 'cpu  150 0 100 800 0 0 0 50 0 0', 'the hypervisor took 50 % of the CPU time'),
])
def test_a_change_is_named(machine, path, text, words):
    before = read_state(machine, no_gpu)
    write(machine, path, text)
    changes = changes_between(before, read_state(machine, no_gpu))
    assert len(changes) == 1 and words in changes[0], changes


def test_a_machine_that_tells_nothing_has_a_state_too(tmp_path):
    assert read_state(tmp_path, no_gpu) == MachineState()


def counts(number):
    return ModelCounts(number, 0, number)


def test_another_caller_of_the_model_is_seen():
    assert server_changes('m', counts(10), counts(30), 20) == ()
    assert server_changes('m', counts(10), counts(29), 20) == ()
    assert server_changes('m', counts(10), counts(33), 20) == (
        'somebody else ran m 3 times meanwhile',)


def test_a_restart_is_seen_by_a_counter_that_fell():
    assert 'restarted' in server_changes('m', counts(10), counts(5), 5)[0]


class FakeNvml:
    """Answers like pynvml on one GPU; what it lacks raises AttributeError, as old ones do."""

    def __init__(self, **answers):
        self.answers = {
            'nvmlDeviceGetCount': 1, 'nvmlDeviceGetHandleByIndex': 'gpu',
            'nvmlDeviceGetName': b'NVIDIA Test', 'nvmlSystemGetDriverVersion': '560.35.03',
            'nvmlDeviceGetCudaComputeCapability': (8, 6),
            'nvmlDeviceGetMemoryInfo': types.SimpleNamespace(total=12 * 2**30),
            'nvmlDeviceGetMigMode': (0, 0), 'nvmlDeviceGetCurrentClocksThrottleReasons': 0,
            'nvmlDeviceGetPowerManagementLimit': 70000, **answers}

    def __getattr__(self, name):
        if name not in self.answers:
            raise AttributeError(name)
        answer = self.answers[name]

        def ask(*_):
            if isinstance(answer, Exception):
                raise answer
            return answer
        return ask


def test_a_gpu_is_described_by_nvml(machine):
    facts = device_facts(is_local=True, root=machine, nvml=FakeNvml)
    assert facts == DeviceFacts('NVIDIA Test', '8.6', 12288, '560.35.03', 'exclusive')


def test_a_partitioned_gpu_says_so(machine):
    assert device_facts(is_local=True, root=machine, nvml=lambda: FakeNvml(
        nvmlDeviceGetMigMode=(1, 1))).partition == 'mig'


def test_what_the_driver_does_not_tell_stays_unknown(machine):
    facts = device_facts(is_local=True, root=machine, nvml=lambda: FakeNvml(
        nvmlDeviceGetMemoryInfo=RuntimeError('not supported')))
    assert facts.memory_mib is None and facts.name == 'NVIDIA Test'


def test_without_a_gpu_the_cpu_is_the_device(machine):
    facts = device_facts(is_local=True, root=machine, nvml=lambda: None)
    assert (facts.name, facts.memory_mib, facts.partition) == ('Test CPU 9, 2 cores', 2000, 'cpu')
    assert facts.driver.startswith('linux ')


def test_a_gpu_that_cannot_be_asked_is_unknown_and_no_cpu(machine):
    (machine / 'proc/driver/nvidia').mkdir(parents=True)
    (machine / 'proc/driver/nvidia/version').write_text('NVRM version: 560.35.03')
    assert device_facts(is_local=True, root=machine, nvml=lambda: None) == DeviceFacts()


class DocumentedNvml(FakeNvml):
    """Answers only what NVIDIA's own module has, called as its functions want to be called."""

    def __getattr__(self, name):
        known = getattr(pytest.importorskip('pynvml', reason='pip install nvidia-ml-py'), name)
        ask = super().__getattr__(name)

        def check(*arguments):
            inspect.signature(known).bind(*arguments)
            return ask(*arguments)
        return check


def test_only_functions_and_bits_of_nvidias_own_module_are_used(machine):
    pynvml = pytest.importorskip('pynvml', reason='pip install nvidia-ml-py')
    nvml = DocumentedNvml(nvmlDeviceGetCurrentClocksEventReasons=0x40)
    assert device_facts(is_local=True, root=machine, nvml=lambda: nvml) == DeviceFacts(
        'NVIDIA Test', '8.6', 12288, '560.35.03', 'exclusive')
    assert gpu_state(lambda: nvml) == {
        'MIG of GPU 0': 'off', 'power limit of GPU 0': '70000 mW',
        'throttling of GPU 0': 'HwThermalSlowdown'}
    for name, bit in EMERGENCIES.items():
        assert getattr(pynvml, f'nvmlClocksEventReason{name}') == bit


def test_nvidias_own_module_without_a_driver_is_no_gpu(machine):
    pynvml = pytest.importorskip('pynvml', reason='pip install nvidia-ml-py')
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        assert load_nvml() is None
        assert device_facts(is_local=True, root=machine).partition == 'cpu'
    else:
        assert device_facts(is_local=True).compute_capability


def test_of_the_device_of_another_host_nothing_is_known(machine):
    assert device_facts(is_local=False, root=machine) == DeviceFacts()


def test_heat_is_a_change_and_a_power_cap_is_not():
    assert gpu_state(FakeNvml)['throttling of GPU 0'] == 'none'
    hot = gpu_state(lambda: FakeNvml(nvmlDeviceGetCurrentClocksThrottleReasons=0x44))
    assert hot['throttling of GPU 0'] == 'HwThermalSlowdown'
    assert gpu_state(lambda: FakeNvml(nvmlDeviceGetCurrentClocksThrottleReasons=0x4))[
        'throttling of GPU 0'] == 'none'


class LateCounter:
    """A server that counts answers one after the other, one with each reading."""

    def __init__(self, *finished):
        self.readings = [ModelCounts(count, 0, count) for count in finished]
        self.asked = 0

    def statistics(self, backend_model):
        self.asked += 1
        return self.readings[min(self.asked, len(self.readings)) - 1]


def test_what_was_answered_before_is_counted_before_a_measurement_begins():
    counter, pauses = LateCounter(8, 9, 10, 10), []
    assert settled_counts(counter, 'm', pauses.append).finished == 10
    assert counter.asked == 4 and len(pauses) == 3


def test_a_model_that_somebody_else_never_leaves_alone_is_not_waited_for():
    counter = LateCounter(*range(1000))
    assert settled_counts(counter, 'm', lambda pause_s: None).finished == counter.asked - 1 < 100
