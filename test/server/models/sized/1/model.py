"""A fixed input of 4,915,200 bytes: more than gRPC's usual limit of 4 MiB for a message."""

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One mean per channel, no state."""

    def execute(self, requests):
        """Return ``MEAN`` (float32, [3]) over the two image axes of ``IMAGE``."""
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
            mean = image.mean(axis=(1, 2), dtype=np.float64).astype(np.float32)
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('MEAN', mean)]))
        return responses
