"""A model with a runtime of our choice; it sleeps, so it needs no core of its own."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

DEFAULT_DELAY_MS = '50'


class TritonPythonModel:
    """Counts its executions since it was loaded."""

    def initialize(self, args):
        """Read the model parameter ``delay_ms``."""
        parameters = json.loads(args['model_config']).get('parameters', {})
        chosen = parameters.get('delay_ms', {}).get('string_value', DEFAULT_DELAY_MS)
        self._delay_s = float(chosen) / 1000.0
        self._executions = 0

    def execute(self, requests):
        """Return begin and end on CLOCK_MONOTONIC, and which execution this was (from 1)."""
        return [self._run(request) for request in requests]

    def _run(self, request):
        begin_ns = time.monotonic_ns()
        delay = pb_utils.get_input_tensor_by_name(request, 'DELAY_MS')
        time.sleep(self._delay_s if delay is None else float(delay.as_numpy()[0]) / 1000.0)
        self._executions += 1
        return pb_utils.InferenceResponse([
            pb_utils.Tensor('TIMES_NS', np.array([begin_ns, time.monotonic_ns()], np.int64)),
            pb_utils.Tensor('ORDINAL', np.array([self._executions], np.int64))])
