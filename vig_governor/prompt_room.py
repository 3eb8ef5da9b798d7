"""What operators are told of prompts and texts that no gap between guarded frames ever holds."""

from collections.abc import Iterable

from vig_core.model import Model
from vig_core.room import find_room
from vig_core.units import text_ms

from vig_governor.config import Config
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
