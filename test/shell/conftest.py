"""What the tests without ROS share: input memory that needs no server."""

import numpy as np
import pytest

from vig_governor.datatypes import numpy_dtype


class ArraySlot:
    """An ``InputSlot`` in private memory, poisoned so that forgotten elements show."""

    def __init__(self):
        self.tensors = {}
        self.elements = {}
        self.shapes = {}

    def allocate(self, name, shape, datatype):
        array = np.empty(tuple(shape), numpy_dtype(datatype))
        array.view(np.uint8).fill(0xA5)
        self.tensors[name] = array
        return array

    def put_bytes(self, name, shape, elements):
        self.elements[name] = list(elements)
        self.shapes[name] = tuple(shape)


@pytest.fixture(scope='session')
def make_slot():
    """Give the factory of private input slots."""
    return ArraySlot
