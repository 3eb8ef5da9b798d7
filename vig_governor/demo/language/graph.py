"""
Build the network as an ONNX graph for the CPU: blockwise quantised matrices, grouped attention.

``MatMulNBits`` and ``GroupQueryAttention`` are operators of onnxruntime (domain com.microsoft);
their documentation defines the layouts used here. The embedding stays outside: one row for each
token is read from a file, so the graph starts at the hidden state.

Inputs: ``hidden`` float32[1, token, width]; ``last_position`` int32[1], index of the last token
of the context; ``context`` int32[], its length; ``past_k<layer>`` and ``past_v<layer>``
float32[1, key_head, capacity, head_width]. Outputs: ``logits`` float32[1, 1, vocabulary] after
the last token, ``present_*`` like ``past_*``; bound to one buffer they are updated in place.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
import onnx
from onnx import helper, numpy_helper, TensorProto

from .weights import Floats, Sizes, Weights

BLOCK = 32
"""Numbers that share a scale."""
CONTEXT = 2048
_MICROSOFT = 'com.microsoft'
_INT8_ACTIVATIONS = 4
"""``accuracy_level`` of MatMulNBits: it may round activations to 8 bits, which is the fast way."""
_TINY = 1e-9


def quantise(matrix: Floats, bits: int) -> tuple[NDArray[np.uint8], Floats,
                                                 NDArray[np.uint8] | None]:
    """
    Round a matrix to 8 or 4 bits in blocks along its inputs.

    :param matrix: ``float32[output, input]``, the number of inputs a multiple of ``BLOCK``.
    :returns: numbers ``uint8[output, block, byte]``, two to the byte with 4 bits, the low one
        first; scales ``float32[output, block]``; with 4 bits zero points ``uint8[output, byte]``,
        two to the byte. With 8 bits 128 stands for zero.
    """
    outputs, inputs = matrix.shape
    blocks = matrix.reshape(outputs, inputs // BLOCK, BLOCK)
    if bits == 8:
        scales = np.maximum(np.abs(blocks).max(-1), _TINY) / 127
        numbers = np.clip(np.round(blocks / scales[..., None]) + 128, 0, 255)
        return numbers.astype(np.uint8), scales.astype(np.float32), None
    low, high = blocks.min(-1), blocks.max(-1)
    scales = np.maximum(high - low, _TINY) / 15
    zeros = np.clip(np.round(-low / scales), 0, 15).astype(np.uint8)
    numbers = np.clip(np.round(blocks / scales[..., None]) + zeros[..., None], 0, 15)
    if zeros.shape[1] % 2:
        zeros = np.pad(zeros, ((0, 0), (0, 1)))
    return _in_pairs(numbers.astype(np.uint8)), scales.astype(np.float32), _in_pairs(zeros)


def build(weights: Weights, bits: int) -> onnx.ModelProto:
    """Build the whole network with matrices of 8 or 4 bits."""
    return _Graph(weights, bits).finish()


def _in_pairs(numbers: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return numbers[..., 0::2] | (numbers[..., 1::2] << 4)


class _Graph:
    """The graph as it grows, layer after layer."""

    def __init__(self, weights: Weights, bits: int) -> None:
        self._matrices = weights.matrices
        self._sizes = weights.sizes
        self._bits = bits
        self._vocabulary = len(weights.vocabulary.texts)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def finish(self) -> onnx.ModelProto:
        sizes = self._sizes
        self._rotary_tables()
        self._node('SimplifiedLayerNormalization', ['hidden', self._matrix('blk.0.attn_norm')],
                   ['normed0'], domain='', axis=-1, epsilon=sizes.epsilon, stash_type=1)
        state = 'hidden'
        for layer in range(sizes.layers):
            state = self._layer(layer, state)
        last = self._constant('minus_one', np.array([-1], np.int64))
        self._node('Gather', [f'normed{sizes.layers}', last], ['last'], domain='', axis=1)
        head = 'output' if 'output.weight' in self._matrices else 'token_embd'
        self._product('last', 'head', self._matrices[f'{head}.weight'], 'logits')
        caches = [f'{kind}{layer}' for layer in range(sizes.layers) for kind in 'kv']
        shape = [1, sizes.key_heads, 'capacity', sizes.head_width]
        graph = helper.make_graph(
            self._nodes, 'language',
            [_value('hidden', TensorProto.FLOAT, [1, 'tokens', sizes.width]),
             _value('last_position', TensorProto.INT32, [1]),
             _value('context', TensorProto.INT32, []),
             *(_value(f'past_{name}', TensorProto.FLOAT, shape) for name in caches)],
            [_value('logits', TensorProto.FLOAT, [1, 1, self._vocabulary]),
             *(_value(f'present_{name}', TensorProto.FLOAT, shape) for name in caches)],
            self._constants)
        return helper.make_model(graph, ir_version=10, opset_imports=[
            helper.make_opsetid('', 20), helper.make_opsetid(_MICROSOFT, 1)])

    def _layer(self, layer: int, state: str) -> str:
        """Add attention and the gated network behind it; gives the name of the new state."""
        sizes, at = self._sizes, f'blk.{layer}'
        joined = np.concatenate([self._matrices[f'{at}.attn_{kind}.weight'] for kind in 'qkv'])
        self._product(f'normed{layer}', f'{at}.qkv', joined, f'qkv{layer}')
        self._node('GroupQueryAttention',
                   [f'qkv{layer}', '', '', f'past_k{layer}', f'past_v{layer}', 'last_position',
                    'context', 'cosines', 'sines'],
                   [f'attended{layer}', f'present_k{layer}', f'present_v{layer}'],
                   num_heads=sizes.heads, kv_num_heads=sizes.key_heads, do_rotary=1,
                   rotary_interleaved=1)
        self._layer_product(f'attended{layer}', f'{at}.attn_output', f'mixed{layer}')
        self._add_and_norm(state, f'mixed{layer}', f'{at}.ffn_norm', f'middle{layer}',
                           f'between{layer}')
        self._layer_product(f'middle{layer}', f'{at}.ffn_gate', f'gate{layer}')
        self._layer_product(f'middle{layer}', f'{at}.ffn_up', f'up{layer}')
        self._node('Sigmoid', [f'gate{layer}'], [f'open{layer}'], domain='')
        self._node('Mul', [f'gate{layer}', f'open{layer}'], [f'gated{layer}'], domain='')
        self._node('Mul', [f'gated{layer}', f'up{layer}'], [f'wide{layer}'], domain='')
        self._layer_product(f'wide{layer}', f'{at}.ffn_down', f'down{layer}')
        is_last = layer == sizes.layers - 1
        self._add_and_norm(f'between{layer}', f'down{layer}',
                           'output_norm' if is_last else f'blk.{layer + 1}.attn_norm',
                           f'normed{layer + 1}', f'state{layer + 1}')
        return f'state{layer + 1}'

    def _rotary_tables(self) -> None:
        width = self._sizes.head_width
        turns = 1 / self._sizes.rotary_base ** (np.arange(0, width, 2) / width)
        angles = np.arange(CONTEXT)[:, None] * turns
        self._constant('cosines', np.cos(angles).astype(np.float32))
        self._constant('sines', np.sin(angles).astype(np.float32))

    def _add_and_norm(self, state: str, added: str, norm: str, normed: str, total: str) -> None:
        self._node('SkipSimplifiedLayerNormalization', [state, added, self._matrix(norm)],
                   [normed, '', '', total], epsilon=self._sizes.epsilon)

    def _layer_product(self, vector: str, name: str, result: str) -> None:
        self._product(vector, name, self._matrices[f'{name}.weight'], result)

    def _product(self, vector: str, name: str, matrix: Floats, result: str) -> None:
        numbers, scales, zeros = quantise(matrix, self._bits)
        inputs = [vector, self._constant(f'{name}.numbers', numbers),
                  self._constant(f'{name}.scales', scales)]
        if zeros is not None:
            inputs.append(self._constant(f'{name}.zeros', zeros))
        outputs_count, inputs_count = matrix.shape
        self._node('MatMulNBits', inputs, [result], K=inputs_count, N=outputs_count,
                   bits=self._bits, block_size=BLOCK, accuracy_level=_INT8_ACTIVATIONS)

    def _matrix(self, name: str) -> str:
        return self._constant(f'{name}.weight', self._matrices[f'{name}.weight'])

    def _constant(self, name: str, array: NDArray[np.generic]) -> str:
        self._constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def _node(self, kind: str, inputs: Sequence[str], outputs: Sequence[str], *,
              domain: str = _MICROSOFT, **attributes: float) -> None:
        self._nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, **attributes))


def _value(name: str, kind: int, shape: Sequence[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def facts(sizes: Sizes, end_tokens: Sequence[int]) -> dict[str, object]:
    """Give what whoever runs the graph must know, as ``facts.json`` has it."""
    return {'layers': sizes.layers, 'key_heads': sizes.key_heads, 'head_width': sizes.head_width,
            'context': CONTEXT, 'end_tokens': list(end_tokens)}
