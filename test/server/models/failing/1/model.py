"""
Fails when the first byte of the image asks for it.

255 answers an error, 254 raises an exception, 253 answers that the image is invalid.
"""

import numpy as np
import triton_python_backend_utils as pb_utils

ANSWER_AN_ERROR = 255
RAISE_AN_EXCEPTION = 254
ANSWER_INVALID = 253


class TritonPythonModel:
    """Counts its executions, the failed ones too."""

    def initialize(self, args):
        """Start counting."""
        self._executions = 0

    def execute(self, requests):
        """Return which execution this was (from 1), or the failure that was asked for."""
        return [self._run(request) for request in requests]

    def _run(self, request):
        self._executions += 1
        wish = int(pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy().flat[0])
        if wish == RAISE_AN_EXCEPTION:
            raise RuntimeError('the image asked for an exception')
        if wish == ANSWER_AN_ERROR:
            return pb_utils.InferenceResponse(
                error=pb_utils.TritonError('the image asked for an error'))
        if wish == ANSWER_INVALID:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError(
                'the image asked to be invalid', pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([
            pb_utils.Tensor('ORDINAL', np.array([self._executions], np.int64))])
