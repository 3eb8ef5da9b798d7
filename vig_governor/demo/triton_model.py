"""
The file ``model.py`` of every demo model, run by Triton's Python backend.

It is copied into the generated repository. ``VIG_DEMO_CODE`` names the folder that contains the
``perception`` package; the networks lie beside this file, ``kind``, ``file`` and ``output`` come
from the model's ``config.pbtxt``.
"""

import json
import os
from pathlib import Path
import sys
from typing import Any

os.environ['OMP_NUM_THREADS'] = '1'
sys.path.insert(0, os.environ['VIG_DEMO_CODE'])

import cv2  # noqa: E402
import numpy as np  # noqa: E402
from perception.models import build  # noqa: E402
import triton_python_backend_utils as triton  # noqa: E402

cv2.setNumThreads(1)


class TritonPythonModel:
    """One request, one frame ``IMAGE``, one output."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the networks; a missing file fails the load with its name."""
        parameters = {name: value['string_value'] for name, value
                      in json.loads(arguments['model_config'])['parameters'].items()}
        self._output = parameters['output']
        self._answer = build(parameters['kind'], Path(__file__).parent, parameters['file'])

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer each request by itself: one frame that fails does not take others with it."""
        return [self._respond(request) for request in requests]

    def _respond(self, request: Any) -> Any:
        try:
            frame = triton.get_input_tensor_by_name(request, 'IMAGE').as_numpy()
            result = triton.Tensor(self._output, np.ascontiguousarray(self._answer(frame)))
            return triton.InferenceResponse([result])
        except Exception as error:  # the backend would end the process otherwise
            return triton.InferenceResponse([], triton.TritonError(str(error)))
