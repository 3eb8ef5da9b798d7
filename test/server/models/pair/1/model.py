"""Needs two inputs: counts the bytes of an image that exceed a threshold."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """Two required inputs, one output."""

    def execute(self, requests):
        """Answer every request with one count."""
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
            threshold = pb_utils.get_input_tensor_by_name(request, 'THRESHOLD').as_numpy()
            count = np.array([np.count_nonzero(image > threshold[0])], np.int64)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('COUNT', count)]))
        return responses
