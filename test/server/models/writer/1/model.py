"""A generative model of known cost: it sleeps for each request, token read and token written."""

import json
import time

import numpy as np
import triton_python_backend_utils as pb_utils

BYTES_PER_TOKEN = 4


class TritonPythonModel:
    """Writes ``abcd`` again and again; ``tokens`` limits how often."""

    def initialize(self, args):
        """Read ``base_ms``, ``prefill_ms``, ``token_ms``, ``cache`` and ``tokens``."""
        config = json.loads(args['model_config'])
        given = {name: value['string_value'] for name, value
                 in config.get('parameters', {}).items()}
        self._base_s, self._prefill_s, self._token_s = (
            float(given.get(f'{name}_ms', default)) / 1000
            for name, default in (('base', '6'), ('prefill', '0.25'), ('token', '4')))
        self._has_cache = given.get('cache') == 'on'
        self._limit = int(given.get('tokens', '1000'))
        self._is_decoupled = config.get('model_transaction_policy', {}).get('decoupled', False)
        self._known = b''

    def execute(self, requests):
        """Answer whole, or token by token where the model is decoupled."""
        if not self._is_decoupled:
            return [self._whole(request) for request in requests]
        for request in requests:
            sender = request.get_response_sender()
            for text, is_end in self._pieces(request):
                sender.send(_response(text, len(text) // BYTES_PER_TOKEN, is_end))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def _whole(self, request):
        pieces = list(self._pieces(request))
        text = b''.join(piece for piece, _ in pieces)
        return _response(text, len(text) // BYTES_PER_TOKEN, any(end for _, end in pieces))

    def _pieces(self, request):
        prompt = pb_utils.get_input_tensor_by_name(request, 'PROMPT').as_numpy()[0]
        wanted = int(pb_utils.get_input_tensor_by_name(request, 'MAX_TOKENS').as_numpy()[0])
        is_known = self._has_cache and self._known and prompt.startswith(self._known)
        unread = len(prompt) - (len(self._known) if is_known else 0)
        time.sleep(self._base_s + unread / BYTES_PER_TOKEN * self._prefill_s)
        self._known = prompt
        for _ in range(min(wanted, self._limit)):
            time.sleep(self._token_s)
            self._known += b'abcd'
            yield b'abcd', False
        if wanted > self._limit:
            yield b'', True


def _response(text, tokens, is_end):
    return pb_utils.InferenceResponse([
        pb_utils.Tensor('TEXT', np.array([text], object)),
        pb_utils.Tensor('TOKENS', np.array([tokens], np.int32)),
        pb_utils.Tensor('END', np.array([is_end], bool))])
