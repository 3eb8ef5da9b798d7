"""Answers with the CRC-32 and the shape of what arrived: the proof that every byte came over."""

import zlib

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    """One checksum per request, no state."""

    def execute(self, requests):
        """Return ``CHECKSUM`` (uint32, [1]) and ``SHAPE`` (int64, [rank]) of ``IMAGE``."""
        responses = []
        for request in requests:
            image = pb_utils.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
            checksum = zlib.crc32(np.ascontiguousarray(image).data)
            responses.append(pb_utils.InferenceResponse([
                pb_utils.Tensor('CHECKSUM', np.array([checksum], np.uint32)),
                pb_utils.Tensor('SHAPE', np.array(image.shape, np.int64))]))
        return responses
