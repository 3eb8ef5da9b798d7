"""Input tensors as the client library wants them."""

import tritonclient.grpc as triton

from vig_governor.backend.base import ModelSignature
from vig_governor.backend.calls import wire_shape
from vig_governor.backend.slots import FilledTensor, LentTensor


def wire_input(tensor: FilledTensor | LentTensor, signature: ModelSignature | None,
               is_shared: bool) -> triton.InferInput:
    """Refer to a tensor that the server can read itself, or take its bytes along."""
    shape = wire_shape(tensor, signature)
    wire = triton.InferInput(tensor.name, shape, tensor.datatype)
    if isinstance(tensor, LentTensor):
        wire.set_shared_memory(tensor.region.name, tensor.byte_size, tensor.offset)
    elif is_shared:
        assert tensor.segment is not None and tensor.segment.region is not None
        wire.set_shared_memory(tensor.segment.region.name, tensor.array.nbytes, tensor.offset)
    else:
        wire.set_data_from_numpy(tensor.array.reshape(shape))
    return wire
