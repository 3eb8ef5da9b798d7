"""
The element types of tensors: KServe v2 names and what numpy calls them.

``BYTES`` has elements of any length and ``BF16`` has no numpy type; neither has an array here.
"""

from types import MappingProxyType

import numpy as np

DTYPES: MappingProxyType[str, np.dtype[np.generic]] = MappingProxyType({
    'BOOL': np.dtype(np.bool_),
    'UINT8': np.dtype(np.uint8),
    'UINT16': np.dtype(np.uint16),
    'UINT32': np.dtype(np.uint32),
    'UINT64': np.dtype(np.uint64),
    'INT8': np.dtype(np.int8),
    'INT16': np.dtype(np.int16),
    'INT32': np.dtype(np.int32),
    'INT64': np.dtype(np.int64),
    'FP16': np.dtype(np.float16),
    'FP32': np.dtype(np.float32),
    'FP64': np.dtype(np.float64),
})
"""Fixed-size types that numpy has, by their KServe v2 name."""

NAMES = (*DTYPES, 'BF16', 'BYTES')
"""Every name that a KServe v2 server may say."""


def numpy_dtype(datatype: str) -> np.dtype[np.generic]:
    """
    Give the numpy type of a KServe v2 name.

    :raises ValueError: for ``BYTES``, ``BF16`` and unknown names; says which names would do.
    """
    try:
        return DTYPES[datatype]
    except KeyError:
        known = 'without a numpy type' if datatype in NAMES else 'no KServe v2 datatype'
        raise ValueError(
            f'{datatype!r} is {known}; arrays exist for {", ".join(DTYPES)}') from None


def element_size(datatype: str) -> int:
    """
    Bytes of one element.

    :raises ValueError: ``BYTES`` has no fixed size; unknown names have none either.
    """
    return 2 if datatype == 'BF16' else numpy_dtype(datatype).itemsize
