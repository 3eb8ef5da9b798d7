"""The converted network run by onnxruntime on one thread; the only module here that needs it."""

from collections.abc import Sequence
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
import onnxruntime


class OnnxNetwork:
    """
    One context of at most ``capacity`` tokens; what was read of it stays until it is overwritten.

    :param folder: holds the converted files.
    :param file: the graph, ``q8.onnx`` or ``q4.onnx``.
    """

    def __init__(self, folder: Path, file: str, capacity: int) -> None:
        facts = json.loads((folder / 'facts.json').read_text(encoding='utf-8'))
        self.capacity = min(capacity, facts['context'])
        self.end_tokens = frozenset(facts['end_tokens'])
        self._embeddings = np.load(folder / 'embeddings.npy', mmap_mode='r')
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry('session.intra_op.allow_spinning', '0')
        self._session = onnxruntime.InferenceSession(
            str(folder / file), options, providers=['CPUExecutionProvider'])
        shape = (1, facts['key_heads'], self.capacity, facts['head_width'])
        self._cache = {
            f'{kind}{layer}': onnxruntime.OrtValue.ortvalue_from_numpy(
                np.zeros(shape, np.float32))
            for layer in range(facts['layers']) for kind in 'kv'}

    def read(self, ids: Sequence[int], position: int) -> NDArray[np.float32]:
        """
        Read tokens behind the first ``position`` ones of the context; later ones are forgotten.

        :returns: ``float32[vocabulary]``, how much each token is expected next.
        """
        end = position + len(ids)
        binding = self._session.io_binding()
        binding.bind_cpu_input('hidden', np.ascontiguousarray(
            self._embeddings[np.asarray(ids)], np.float32)[None])
        binding.bind_cpu_input('last_position', np.array([end - 1], np.int32))
        binding.bind_cpu_input('context', np.array(end, np.int32))
        binding.bind_output('logits')
        for name, value in self._cache.items():
            binding.bind_ortvalue_input(f'past_{name}', value)
            binding.bind_ortvalue_output(f'present_{name}', value)
        self._session.run_with_iobinding(binding)
        logits: NDArray[np.float32] = binding.get_outputs()[0].numpy()[0, 0]
        return logits
