"""Input tensors as the client library wants them."""

import tritonclient.grpc as triton

from vig_governor.backend.base import ModelSignature
from vig_governor.backend.calls import region_of, wire_shape
from vig_governor.backend.slots import FilledTensor, LentTensor


def wire_input(tensor: FilledTensor | LentTensor, signature: ModelSignature | None,
               is_shared: bool) -> triton.InferInput:
    """Refer to a tensor that the server can read itself, or take its bytes along."""
    shape = wire_shape(tensor, signature)
    wire = triton.InferInput(tensor.name, shape, tensor.datatype)
    region = region_of(tensor, is_shared)
    if region is not None:
        wire.set_shared_memory(*region)
    else:
        assert isinstance(tensor, FilledTensor)
        wire.set_data_from_numpy(tensor.array.reshape(shape))
    return wire
