"""Events and actions are values: compared by what they say, and nothing can be hung on them."""

import pytest
from vig_core.actions import Dispatch, ReleaseInput
from vig_core.events import BackendCompleted


def test_values_that_say_the_same_are_equal_and_hash_alike():
    one, other = (Dispatch(1, 'm', 'v', 'm_v', 20) for _ in range(2))
    assert one == other and len({one, other}) == 1
    assert one != Dispatch(1, 'm', 'v', 'm_v', 21)
    assert ReleaseInput(1) != BackendCompleted(1)


def test_a_value_has_no_room_for_more_than_its_fields():
    with pytest.raises(AttributeError):
        ReleaseInput(1).detail = 'more'
