"""A generative model of our choice: it counts on from where its prompt ends, a token each time."""

import json
import re
import time

import numpy as np
import triton_python_backend_utils as pb_utils

ORDER = re.compile(r'count to (\d+)(?: and break at (\d+))?:')


class TritonPythonModel:
    """Takes the model parameter ``delay_ms`` for each token."""

    def initialize(self, args):
        """Read what kind of model this is."""
        config = json.loads(args['model_config'])
        chosen = config.get('parameters', {}).get('delay_ms', {}).get('string_value', '5')
        self._delay_s = float(chosen) / 1000.0
        self._is_decoupled = config.get('model_transaction_policy', {}).get('decoupled', False)

    def execute(self, requests):
        """Answer each request once, or once for each token."""
        if not self._is_decoupled:
            return [self._answer(request) for request in requests]
        for request in requests:
            sender = request.get_response_sender()
            try:
                for piece in self._pieces(request):
                    sender.send(self._response([piece]))
            except ValueError as error:
                sender.send(pb_utils.InferenceResponse([], pb_utils.TritonError(str(error))))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        return None

    def _answer(self, request):
        try:
            return self._response(list(self._pieces(request)))
        except ValueError as error:
            return pb_utils.InferenceResponse([], pb_utils.TritonError(str(error)))

    def _pieces(self, request):
        prompt = pb_utils.get_input_tensor_by_name(request, 'PROMPT').as_numpy()[0].decode()
        limit = int(pb_utils.get_input_tensor_by_name(request, 'MAX_TOKENS').as_numpy()[0])
        order = ORDER.match(prompt)
        last, breaks_at = (int(order[1]), int(order[2] or 0)) if order else (0, 0)
        written = len(prompt[order.end():].split()) if order else 0
        for number in range(written + 1, written + limit + 1):
            time.sleep(self._delay_s)
            if number > last:
                yield ''
                return
            if number == breaks_at:
                raise ValueError(f'broken at {number}')
            yield f' {number}'

    def _response(self, pieces):
        return pb_utils.InferenceResponse([
            pb_utils.Tensor('TEXT', np.array([''.join(pieces).encode()], object)),
            pb_utils.Tensor('TOKENS', np.array([sum(map(bool, pieces))], np.int32)),
            pb_utils.Tensor('END', np.array(['' in pieces], bool))])
