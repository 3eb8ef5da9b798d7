"""
Events and actions: values that nobody changes and that are cheap to make.

``dataclass(frozen=True)`` writes each field through ``object.__setattr__``: an action of eleven
fields then costs six times as much, and a decision makes two to four of them. A ``value`` is
frozen for the type checker, which reads all of the core, and a plain class with slots at run time.
"""

from dataclasses import dataclass
from typing import dataclass_transform, TypeVar

Made = TypeVar('Made')


@dataclass_transform(frozen_default=True)
def value(cls: type[Made]) -> type[Made]:
    """Make a class with fields a value: slots, equality, hash; never to be changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
