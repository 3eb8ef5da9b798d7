"""
A model on an accelerator that runs one thing at a time, where the machine has none.

The first eight bytes of the frame say how long this inference holds the accelerator (int64, ns),
so the same frame costs the same whoever sends it. The accelerator is one lock for all processes;
who holds it sleeps, as the host does while a device computes, and leaves a line in its journal.
"""

import fcntl
import os
import struct
import time

import numpy as np
import triton_python_backend_utils as pb_utils

BLOCKS = 8
LINE = struct.Struct('<qq24s')


class TritonPythonModel:
    """Takes the accelerator for as long as the frame says; answers the means of its blocks."""

    def initialize(self, args):
        """Open lock and journal below the folder ``VIG_LIVE_DEVICE``."""
        folder = os.environ['VIG_LIVE_DEVICE']
        self._name = args['model_name'].encode()
        self._lock = os.open(os.path.join(folder, 'lock'), os.O_RDWR | os.O_CREAT)
        self._journal = os.open(os.path.join(folder, 'journal'),
                                os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def execute(self, requests):
        """Return ``MEANS``, float32[8, 8]: the mean brightness of each block of the frame."""
        return [self._run(request) for request in requests]

    def _run(self, request):
        frame = pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
        holds_ns = int(frame.reshape(-1)[:8].view(np.int64)[0])
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        try:
            began_ns = time.monotonic_ns()
            means = self._means(frame)
            time.sleep(max(0, began_ns + holds_ns - time.monotonic_ns()) / 1e9)
            os.write(self._journal, LINE.pack(began_ns, time.monotonic_ns(), self._name))
        finally:
            fcntl.flock(self._lock, fcntl.LOCK_UN)
        return pb_utils.InferenceResponse([pb_utils.Tensor('MEANS', means)])

    def _means(self, frame):
        height, width = (size // BLOCKS * BLOCKS for size in frame.shape[:2])
        sparse = frame[:height:4, :width:4, 1]
        rows, columns = (size // BLOCKS for size in sparse.shape)
        return sparse[:rows * BLOCKS, :columns * BLOCKS].reshape(
            BLOCKS, rows, BLOCKS, columns).mean(axis=(1, 3), dtype=np.float32)
