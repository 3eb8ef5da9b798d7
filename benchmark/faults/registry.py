"""
The registry of named faults: what is staged, what must come of it, and who stages it.

A case is a function that takes the ``World``, breaks something, repairs it, and says what each
phase must look like with the world's own checks. What holds for *every* case is not in the case:
the runner sees to it that each published frame got exactly one status, that the node is ready
and delivers again within the case's time, and that memory, threads, files and shared-memory
regions are back to where they began.

Add a case with ``@fault`` in one of the ``cases_*`` modules; ``make faults`` and the tests find it
by its name.
"""

from collections.abc import Callable
from dataclasses import dataclass
import importlib
import pkgutil
from typing import Any

Body = Callable[[Any], None]
"""Takes the ``World``; this module must not import it, because it imports rclpy."""


@dataclass(frozen=True, slots=True)
class Fault:
    """
    One named fault.

    :ivar title: what happens, in one line for the table.
    :ivar body: stages it; raises ``AssertionError`` where the node behaves otherwise.
    :ivar recovery_s: how long the first result may take after the repair.
    :ivar is_fast: whether ``make test`` runs it too.
    :ivar is_fake: whether a fake stands in for the server, because the real one cannot fail so.
    :ivar growth_mib: how much more resident memory the node may have afterwards.
    :ivar starts_itself: whether the body starts the node, for faults that come before it.
    """

    name: str
    title: str
    body: Body
    recovery_s: float = 5.0
    is_fast: bool = False
    is_fake: bool = False
    growth_mib: float = 24.0
    starts_itself: bool = False


FAULTS: dict[str, Fault] = {}


def fault(title: str, *, recovery_s: float = 5.0, is_fast: bool = False, is_fake: bool = False,
          growth_mib: float = 24.0, starts_itself: bool = False) -> Callable[[Body], Body]:
    """Register a case under the name of its function; see ``Fault`` for the parameters."""
    def register(body: Body) -> Body:
        name = body.__name__
        if name in FAULTS:
            raise ValueError(f'two faults are called {name}')
        FAULTS[name] = Fault(name, title, body, recovery_s, is_fast, is_fake, growth_mib,
                             starts_itself)
        return body
    return register


def load_cases() -> dict[str, Fault]:
    """Import every module ``cases_*`` of this package and give all registered faults."""
    package = importlib.import_module(__package__)
    for module in pkgutil.iter_modules(package.__path__):
        if module.name.startswith('cases_'):
            importlib.import_module(f'{__package__}.{module.name}')
    return FAULTS
