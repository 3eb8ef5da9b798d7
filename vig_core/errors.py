"""What the core raises; whoever feeds it decides who is told."""


class VigError(Exception):
    """Base of every error that this package raises on purpose."""


class ContractError(VigError):
    """
    A configuration that cannot bind or cannot be honoured.

    :ivar path: the keys that lead to the value, for example ``('models', 'detector', 'slots')``.
    :ivar reason: one sentence: what is wrong and what would be right.
    """

    def __init__(self, path: tuple[str, ...], reason: str) -> None:
        super().__init__(f'{".".join(path)}: {reason}')
        self.path = path
        self.reason = reason


class RefusedEvent(VigError):
    """An event that contradicts the scheduler's history; the scheduler's state is unchanged."""
