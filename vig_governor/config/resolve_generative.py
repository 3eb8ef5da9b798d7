"""Generative models: what they are asked in, and the streams that bring their prompts."""

from collections.abc import Mapping

from vig_governor.config.options import GenerativeOptions
from vig_governor.config.problems import Findings, Path
from vig_governor.config.schema import StreamBlock
from vig_governor.config.schema_model import ModelBlock
from vig_governor.config.streams import StreamBinding
from vig_governor.encoders.base import InputOptions

PROMPT_TYPE = 'std_msgs/msg/String'
JOB_STREAM = 'generate/'
"""No stream of the file can be called so: its names have no slash."""


def resolve_generative(blocks: Mapping[str, ModelBlock]) -> dict[str, GenerativeOptions]:
    """Give the options of each model with a block ``cooperative``."""
    return {name: GenerativeOptions(
        prompt_tensor=block.cooperative.prompt_tensor,
        max_tokens_tensor=block.cooperative.max_tokens_tensor,
        text_tensor=block.cooperative.text_tensor,
        tokens_tensor=block.cooperative.tokens_tensor, end_tensor=block.cooperative.end_tensor,
        template=block.cooperative.prompt_template,
        max_prompt_bytes=block.cooperative.max_prompt_bytes)
        for name, block in blocks.items() if block.cooperative is not None}


def job_streams(generative: Mapping[str, GenerativeOptions]) -> tuple[StreamBinding, ...]:
    """Give the stream of the jobs of ``~/generate`` for each generative model."""
    return tuple(StreamBinding(
        name=f'{JOB_STREAM}{model}', topic='', message_type=PROMPT_TYPE, model=model, key='',
        input=prompt_input(options), time_source='arrival', transport='copy', is_generative=True)
        for model, options in generative.items())


def prompt_input(options: GenerativeOptions) -> InputOptions:
    """Say which input the prompt fills; the rest has no meaning for text."""
    return InputOptions(tensor=options.prompt_tensor, encoder='text')


def check_prompts(block: StreamBlock, at: Path, findings: Findings) -> None:
    """Refuse a stream of a generative model that brings no prompts."""
    if block.type != PROMPT_TYPE:
        findings.refuse((*at, 'type'), f'a generative model reads prompts: {PROMPT_TYPE}')
    if block.input is not None:
        findings.refuse((*at, 'input'), 'is not used: the prompt fills the prompt_tensor of the '
                        "model's block cooperative; remove it")
    if block.transport == 'shm':
        findings.refuse((*at, 'transport'), 'text is always copied; remove transport: shm')
