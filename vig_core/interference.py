"""
Measured slow-down of a model by what runs beside it.

Rules: directed, used only where it was measured, never summed: the largest figure counts.
"""

from collections.abc import Iterable, Mapping


def added_ns(interference_ns: Mapping[tuple[str, str], int], victim: str,
             running: Iterable[str]) -> int:
    """Time that the worst of the ``running`` backend models adds to ``victim``."""
    return max((interference_ns.get((victim, other), 0) for other in running), default=0)
