"""
The server of all arms: Triton with an emulated accelerator, tuned as its manual suggests.

One global resource of the rate limiter says that one execution runs at a time, priorities by
class say whose, and every model has two instances, so that the next request is at hand when the
resource comes free. The settings are the same in every arm.

The rate limiter serves the lowest product of priority and executions since the model was loaded.
Priorities a factor of 16 apart come close to a strict order of the classes, and models are loaded
anew before a cell in which requests meet at the server: no arm pays for what ran before it. (Of
the governor only one request at a time is at the server.)
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import shutil
import struct

from vig_core.contract import Criticality
from vig_core.model import Model

from vig_governor.triton_server import TritonServer

HERE = Path(__file__).resolve().parent
INSTANCES = 2
PRIORITY = {Criticality.PROTECTED: 1, Criticality.HIGH: 16, Criticality.NORMAL: 256,
            Criticality.BEST_EFFORT: 4096}
_LINE = struct.Struct('<qq24s')


def model_config(name: str, priority: int) -> str:
    """Write the ``config.pbtxt`` of one model."""
    return (f'name: "{name}"\n'
            'backend: "python"\n'
            'max_batch_size: 0\n'
            'input [ { name: "IMAGE" data_type: TYPE_UINT8 dims: [ -1, -1, 3 ] } ]\n'
            'output [ { name: "MEANS" data_type: TYPE_FP32 dims: [ 8, 8 ] } ]\n'
            f'instance_group [ {{ kind: KIND_CPU count: {INSTANCES} rate_limiter {{\n'
            '  resources [ { name: "accelerator" global: true count: 1 } ]\n'
            f'  priority: {priority} }} }} ]\n')


class Accelerator:
    """
    One Triton with one emulated accelerator; a context manager.

    :param folder: receives the model repository, the accelerator's journal and the log.
    :param models: every model that some workload uses; names are those of the backend models.
    """

    def __init__(self, folder: Path, models: Sequence[Model], *, grpc_port: int = 0) -> None:
        repository = folder / 'models'
        shutil.rmtree(repository, ignore_errors=True)
        self._names = []
        for model in models:
            name = model.variants[0].backend_model
            self._names.append(name)
            (repository / name / '1').mkdir(parents=True)
            (repository / name / 'config.pbtxt').write_text(
                model_config(name, PRIORITY[model.criticality]), encoding='utf-8')
            shutil.copyfile(HERE / 'serial_model.py', repository / name / '1' / 'model.py')
        self._journal = folder / 'journal'
        self._journal.unlink(missing_ok=True)
        log = folder / 'log' / 'triton.log'
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        self.server = TritonServer(
            repository, grpc_port=grpc_port, load=self._names, rate_limiter=True, log=log,
            environment={'VIG_LIVE_DEVICE': str(folder.resolve())})

    def __enter__(self) -> 'Accelerator':
        self.server.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.server.__exit__(None, None, None)

    def load_anew(self, names: Sequence[str]) -> None:
        """Forget how often these models ran; nothing may be in flight."""
        with ThreadPoolExecutor(len(names)) as at_once:
            for step in (self.server.unload_model, self.server.load_model):
                list(at_once.map(step, names))

    def executions(self, begin_ns: int, end_ns: int) -> list[tuple[int, int, str]]:
        """List what held the accelerator between two instants (monotonic): begin, end, model."""
        content = self._journal.read_bytes() if self._journal.exists() else b''
        whole = content[:len(content) // _LINE.size * _LINE.size]
        return [(began, ended, name.rstrip(b'\0').decode())
                for began, ended, name in _LINE.iter_unpack(whole)
                if ended > begin_ns and began < end_ns]
