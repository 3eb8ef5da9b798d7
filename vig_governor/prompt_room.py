"""
What is told of prompts and texts that no gap between guarded frames ever holds, or that come late.

Operators are told what the configuration leaves no room for, clients what becomes of their job.
All of it is by the profiles alone: what is learned later makes no plan shorter.
"""

from collections.abc import Iterable

from vig_core.model import Model, System
from vig_core.room import find_room
from vig_core.units import text_ms

from vig_governor.config import Config
from vig_governor.generation import Generation
from vig_governor.token_estimate import BYTES_PER_TOKEN


def room_text(config: Config, model: Model, guarded: Iterable[Model]) -> str:
    """
    Say which prompts of a generative model wait for ever; empty where all that may come fit.

    :param guarded: the models whose gaps are known.
    """
    room = find_room(config.system, model, guarded)
    options = config.generative.get(model.name)
    if room is None or options is None or model.cooperative is None:
        return ''
    around = options.tokens_around
    longest = -(-options.max_prompt_bytes // BYTES_PER_TOKEN) + around
    plan, who = f'the smallest quantum plans {text_ms(room.smallest_ns)}', []
    if room.new_prompt < 0:
        who.append('every job')
    elif room.new_prompt < longest:
        plan += f' and {text_ms(room.per_new_token_ns)} for each token of a new prompt'
        size = max(0, room.new_prompt - around) * BYTES_PER_TOKEN
        who.append(f'a prompt of more than {room.new_prompt} tokens (about {size} bytes)')
    if 0 <= room.text < longest + model.cooperative.max_total_tokens:
        who.append(f'a text of more than {room.text} tokens with its prompt')
    if not who:
        return ''
    return (f'no gap before a frame of {room.guarded} is longer than {text_ms(room.gap_ns)}, and '
            f'{plan}: {" and ".join(who)} wait{"s" if len(who) == 1 else ""} as long as no frame '
            f'of {room.guarded} stays away')


class Outlook:
    """What can be said of the jobs of a generative model before they begin."""

    def __init__(self, system: System, model: Model) -> None:
        """Look at the streams beside which they are written."""
        assert model.cooperative is not None
        self._model = model
        self._cooperative = model.cooperative
        self._room = find_room(system, model, system.models.values())

    def remark(self, job: Generation, age_ns: int) -> str:
        """
        Say in one sentence why a job waits or is late; empty where it may well be in time.

        No reason to refuse it: a camera may stop, and a text may end before its bound.
        """
        return self._waits(job) or self._is_late(job, age_ns) or self._outgrows(job)

    def _waits(self, job: Generation) -> str:
        room = self._room
        if room is None or job.prompt_tokens <= room.new_prompt:
            return ''
        needed_ns = room.smallest_ns + job.prompt_tokens * room.per_new_token_ns
        return (f'no gap before a frame of {room.guarded} is longer than {text_ms(room.gap_ns)}, '
                f'and the first quantum of this prompt ({job.prompt_tokens} tokens) plans '
                f'{text_ms(needed_ns)}: it waits as long as no frame of {room.guarded} stays away')

    def _is_late(self, job: Generation, age_ns: int) -> str:
        room, contract, bound = self._room, self._model.contract, self._bound(job)
        cost_ns = self._cooperative.cost_ns(job.prompt_tokens, bound, is_new=True)
        least_ns = min((self._model.in_proportion_ns(variant, cost_ns)
                        for variant in self._model.runnable_variants), default=0)
        beside = ''
        if room is not None:
            least_ns, beside = room.takes_ns(least_ns), f' beside the frames of {room.guarded}'
        for limit_ns, what in ((contract.max_age_ns, 'end of its use (max_age)'),
                               (contract.deadline_ns, 'deadline')):
            if limit_ns is not None and age_ns + least_ns > limit_ns:
                left_ns = limit_ns - age_ns
                when = (f'is in {text_ms(left_ns)}' if left_ns > 0
                        else f'was {text_ms(-left_ns)} ago')
                return (f'all of its {bound} tokens take at least {text_ms(least_ns)}{beside}, '
                        f'and the {what} {when}')
        return ''

    def _outgrows(self, job: Generation) -> str:
        room = self._room
        if room is None or job.prompt_tokens + self._bound(job) <= room.text:
            return ''
        return (f'no gap before a frame of {room.guarded} is longer than {text_ms(room.gap_ns)}: '
                f'a text of more than {room.text} tokens with its prompt waits as long as no '
                f'frame of {room.guarded} stays away')

    def _bound(self, job: Generation) -> int:
        return self._cooperative.bound(job.max_tokens)
