"""
The file ``model.py`` of every served language model, run by Triton's Python backend.

Inputs: ``PROMPT`` BYTES[1], the whole text so far; ``MAX_TOKENS`` INT32[1], optional. Outputs:
``TEXT`` BYTES[1], what follows; ``TOKENS`` INT32[1], its length; ``END`` BOOL[1], the model ended
its answer; ``READ`` INT32[1], how many tokens of the prompt were read for it. A decoupled model
answers once for each token, and its ``END`` is true in the last answer or in none.

It is copied into the generated repository. ``VIG_DEMO_CODE`` names the folder that contains the
``language`` package; the network lies beside this file, ``file`` and ``prefix_cache`` come from
the model's ``config.pbtxt``.
"""

from collections.abc import Iterator
import json
import os
from pathlib import Path
import sys
from typing import Any

os.environ['OMP_NUM_THREADS'] = '1'
sys.path.insert(0, os.environ['VIG_DEMO_CODE'])

from language.network import OnnxNetwork  # noqa: E402
from language.tokens import ByteTokens  # noqa: E402
from language.writer import Piece, Writer  # noqa: E402
import numpy as np  # noqa: E402
import triton_python_backend_utils as triton  # noqa: E402

CAPACITY = 1024
DEFAULT_MAX_TOKENS = 32


class TritonPythonModel:
    """One request, one text to go on with."""

    def initialize(self, arguments: dict[str, str]) -> None:
        """Load the network; a missing file fails the load with its name."""
        config = json.loads(arguments['model_config'])
        parameters = {name: value['string_value'] for name, value in config['parameters'].items()}
        self._is_decoupled = config.get('model_transaction_policy', {}).get('decoupled', False)
        folder = Path(__file__).parent
        self._writer = Writer(OnnxNetwork(folder, parameters['file'], CAPACITY),
                              ByteTokens(folder / 'tokenizer.json'),
                              has_prefix_cache=parameters['prefix_cache'] == 'on')

    def execute(self, requests: list[Any]) -> list[Any] | None:
        """Answer each request by itself: one that fails does not take others with it."""
        if not self._is_decoupled:
            return [self._answer(request) for request in requests]
        for request in requests:
            self._stream(request)
        return None

    def _answer(self, request: Any) -> Any:
        try:
            pieces = list(self._pieces(request))
            return self._response(b''.join(piece.text for piece in pieces),
                                  sum(not piece.is_end for piece in pieces),
                                  any(piece.is_end for piece in pieces))
        except Exception as error:  # the backend would end the process otherwise
            return triton.InferenceResponse([], triton.TritonError(str(error)))

    def _stream(self, request: Any) -> None:
        sender = request.get_response_sender()
        try:
            for piece in self._pieces(request):
                if request.is_cancelled():
                    break
                sender.send(self._response(piece.text, not piece.is_end, piece.is_end))
        except Exception as error:  # the backend would end the process otherwise
            sender.send(triton.InferenceResponse([], triton.TritonError(str(error))))
        sender.send(flags=triton.TRITONSERVER_RESPONSE_COMPLETE_FINAL)

    def _pieces(self, request: Any) -> Iterator[Piece]:
        prompt = triton.get_input_tensor_by_name(request, 'PROMPT').as_numpy().reshape(-1)[0]
        limit = triton.get_input_tensor_by_name(request, 'MAX_TOKENS')
        return self._writer.write(bytes(prompt), DEFAULT_MAX_TOKENS if limit is None
                                  else int(limit.as_numpy().reshape(-1)[0]))

    def _response(self, text: bytes, tokens: int, is_end: bool) -> Any:
        return triton.InferenceResponse([
            triton.Tensor('TEXT', np.array([text], object)),
            triton.Tensor('TOKENS', np.array([tokens], np.int32)),
            triton.Tensor('END', np.array([is_end], bool)),
            triton.Tensor('READ', np.array([self._writer.tokens_read], np.int32))])
