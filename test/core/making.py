"""Requests for the tests of single mechanisms."""

from vig_core import freshness
from vig_core.request import Request
from vig_core.units import ms


def request(number, of, captured=0.0, arrived=None, key=''):
    """Build a waiting request; times in milliseconds."""
    generation_ns = ms(captured)
    return Request(
        request_id=number, model=of, stream=of.name, key=key, generation_ns=generation_ns,
        arrived_at_ns=generation_ns if arrived is None else ms(arrived), sequence=number,
        payload_bytes=0, deadline_at_ns=generation_ns + of.contract.deadline_ns,
        useless_from_ns=freshness.useless_from_ns(
            of, generation_ns, freshness.optimistic_runtime_ns(of)))
