"""A model of fixed runtime that needs no core of its own, for measuring what is around it."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Sleeps until its runtime is over; the frame is mapped, as every model does, but not read."""

    def initialize(self, args):
        """Read the model parameter ``runtime_ms``."""
        parameters = json.loads(args['model_config'])['parameters']
        self._runtime_s = float(parameters['runtime_ms']['string_value']) / 1000

    def execute(self, requests):
        """Return begin and end on CLOCK_MONOTONIC as ``TIMES_NS`` (int64, [2])."""
        return [self._run(request) for request in requests]

    def _run(self, request):
        begin_ns = time.monotonic_ns()
        pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
        time.sleep(max(0.0, self._runtime_s - (time.monotonic_ns() - begin_ns) / 1e9))
        return pb_utils.InferenceResponse([
            pb_utils.Tensor('TIMES_NS', np.array([begin_ns, time.monotonic_ns()], np.int64))])
