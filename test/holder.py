"""What the watch of a server frees, without the actor whose slots it would be."""

from collections.abc import Iterable


class Holder:
    """Holds the slots of some calls until their ends are proven."""

    def __init__(self, *calls: int) -> None:
        self.held = set(calls)

    @property
    def unproven_executions(self) -> int:
        """Count what is held."""
        return len(self.held)

    def prove_over(self, request_ids: Iterable[int], detail: str) -> None:
        """Let go of these."""
        self.held -= set(request_ids)
