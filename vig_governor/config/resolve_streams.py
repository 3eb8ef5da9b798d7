"""The block ``streams`` to bindings, and what only streams together can get wrong."""

from collections import defaultdict
from collections.abc import Mapping
import re

from vig_core import units
from vig_core.contract import QueuePolicy
from vig_core.model import Model

from vig_governor.config.options import GenerativeOptions
from vig_governor.config.problems import Findings, Path
from vig_governor.config.resolve_generative import check_prompts, prompt_input
from vig_governor.config.schema import InputBlock, StreamBlock
from vig_governor.config.streams import StreamBinding
from vig_governor.config.translate import nearest
from vig_governor.encoders import encoder_names
from vig_governor.encoders.base import InputOptions

_TOPIC = re.compile(r'(~/|/)?[A-Za-z_][A-Za-z0-9_]*(/[A-Za-z_][A-Za-z0-9_]*)*\Z')
_TYPE = re.compile(r'[A-Za-z][A-Za-z0-9_]*/msg/[A-Za-z][A-Za-z0-9_]*\Z')
_SHORT_TYPE = re.compile(r'([A-Za-z][A-Za-z0-9_]*)(?:/|\.|\.msg\.)([A-Za-z][A-Za-z0-9_]*)\Z')
_PLAIN_GEOMETRY = frozenset(
    f'geometry_msgs/msg/{name}' for name in (
        'Accel', 'AccelWithCovariance', 'Inertia', 'Point', 'Point32', 'Polygon', 'Pose',
        'Pose2D', 'PoseWithCovariance', 'Quaternion', 'Transform', 'Twist',
        'TwistWithCovariance', 'Vector3', 'Wrench'))


def resolve_streams(blocks: Mapping[str, StreamBlock], models: Mapping[str, Model],
                    names: list[str], findings: Findings,
                    generative: Mapping[str, GenerativeOptions]) -> tuple[StreamBinding, ...]:
    """
    Resolve all streams.

    :param names: every model that the file names, the broken ones included.
    :param generative: options of the generative ones.
    """
    bindings = tuple(_binding(name, block, names, findings, generative.get(block.model))
                     for name, block in blocks.items())
    _check_outputs(bindings, findings)
    _check_sharing(bindings, models, findings)
    fed = {binding.model for binding in bindings}
    for name in names if bindings else ():
        if name not in fed and name not in generative:
            findings.notice(('models', name), 'no stream feeds this model')
    return bindings


def _binding(name: str, block: StreamBlock, names: list[str], findings: Findings,
             generative: GenerativeOptions | None) -> StreamBinding:
    at: Path = ('streams', name)
    for key in ('topic', 'output'):
        topic = getattr(block, key)
        if topic is not None and (
                not _TOPIC.match(topic) or '__' in topic or len(topic) > 200):
            findings.refuse((*at, key), 'is no ROS topic name; use letters, digits and single '
                            'underscores between slashes, for example /camera/front/image_raw')
    _check_type(block, at, findings)
    if block.model not in names:
        findings.refuse((*at, 'model'), f'is no model; {nearest(block.model, names)}')
    if generative is not None:
        check_prompts(block, at, findings)
        options = prompt_input(generative)
    else:
        options = _input(block.input, (*at, 'input'), findings)
    return StreamBinding(
        name=name, topic=block.topic, message_type=block.type, model=block.model,
        key=block.key or name, input=options,
        output=block.output or '', time_source=block.time_source, bad_stamp=block.bad_stamp,
        max_clock_skew_ns=units.ms(block.max_clock_skew_ms),
        transport=block.transport if generative is None else 'copy',
        shm_slots=block.shm_slots, deliver_obsolete=block.deliver_obsolete,
        is_generative=generative is not None)


def _check_type(block: StreamBlock, at: Path, findings: Findings) -> None:
    if not _TYPE.match(block.type):
        match = _SHORT_TYPE.match(block.type)
        hint = f'; did you mean {match[1]}/msg/{match[2]}?' if match else ''
        findings.refuse((*at, 'type'), 'must be package/msg/Type, for example '
                                       f'sensor_msgs/msg/Image{hint}')
        return
    has_header = not (block.type in _PLAIN_GEOMETRY or block.type.startswith('std_msgs/msg/'))
    if not has_header and block.time_source == 'stamp' and block.bad_stamp == 'refuse':
        findings.refuse((*at, 'type'), 'has no header, so no capture time; add '
                                       'time_source: arrival to this stream')


def _input(block: InputBlock | None, at: Path, findings: Findings) -> InputOptions:
    if block is None:
        findings.refuse(at, 'is missing: how a message becomes a tensor')
        return InputOptions(tensor='', encoder='')
    channels = 1 if block.color == 'GRAY' else 3
    mean, std = block.mean, block.std
    length = len(mean if mean is not None else std if std is not None else [0.0] * channels)
    mean = [0.0] * length if mean is None else mean
    std = [1.0] * length if std is None else std
    if len(mean) != len(std):
        findings.refuse((*at, 'std'), f'has {len(std)} values and mean has {len(mean)}; give one '
                                      'of each per channel')
    elif length not in (1, channels):
        key = 'mean' if block.mean is not None else 'std'
        findings.refuse((*at, key), f'has {length} values; {block.color} needs '
                                    f'{"1" if channels == 1 else "1 or 3"}')
    for index, value in enumerate(std):
        if value == 0:
            findings.refuse((*at, 'std', index), 'divides by 0; use 1 to leave the channel as '
                                                 'it is')
    if block.encoder not in encoder_names():
        findings.notice((*at, 'encoder'), 'is not installed here, and the node needs it; '
                        f'{nearest(block.encoder, list(encoder_names()))}')
    if block.scale == 0:
        findings.refuse((*at, 'scale'), 'makes every pixel 0; use 1 to leave them as they are')
    if block.letterbox and block.size is None:
        findings.refuse((*at, 'letterbox'), 'needs size: [width, height] to pad to')
    return InputOptions(
        tensor=block.tensor, encoder=block.encoder,
        size=None if block.size is None else (block.size[0], block.size[1]),
        layout=block.layout, dtype=block.dtype, color=block.color, scale=block.scale,
        mean=tuple(mean), std=tuple(std), letterbox=block.letterbox)


def _check_outputs(bindings: tuple[StreamBinding, ...], findings: Findings) -> None:
    """Results go to ``<output>/result``: one output cannot serve two streams."""
    first_of: dict[str, tuple[StreamBinding, str]] = {}
    for binding in bindings:
        output = binding.output or f'{binding.topic}/vig'
        first, first_output = first_of.setdefault(output.lstrip('/'), (binding, output))
        if first is binding:
            continue
        at: Path = ('streams', binding.name, 'output' if binding.output else 'topic')
        if first_output == output:
            findings.refuse(
                at, f'leads to {output}/result, where stream {first.name} publishes already; '
                    f'give one of them an output of its own, for example '
                    f'streams.{binding.name}.output: {output}_{binding.name}')
        else:
            findings.notice(
                at, f'leads to {first_output}/result of stream {first.name} when the node runs '
                    'in the root namespace; give one of them an output of its own')


def _check_sharing(bindings: tuple[StreamBinding, ...], models: Mapping[str, Model],
                   findings: Findings) -> None:
    by_model: dict[str, list[StreamBinding]] = defaultdict(list)
    for binding in bindings:
        by_model[binding.model].append(binding)
    for name, sharing in by_model.items():
        model = models.get(name)
        if model is None:
            continue
        at: Path = ('models', name, 'queue')
        if model.policy is QueuePolicy.LATEST and len(sharing) > 1:
            findings.notice(
                (*at, 'policy'), f'{len(sharing)} streams feed one latest model and evict each '
                f'other; use latest_per_key with capacity {len(sharing)} to keep one frame each')
        if model.policy is QueuePolicy.LATEST_PER_KEY:
            _check_keys(sharing, model.capacity, at, findings)


def _check_keys(sharing: list[StreamBinding], capacity: int, at: Path,
                findings: Findings) -> None:
    first_of: dict[str, StreamBinding] = {}
    for binding in sharing:
        first = first_of.setdefault(binding.key, binding)
        if first is not binding:
            findings.notice(('streams', binding.name, 'key'),
                            f'stream {first.name} has the same key: the two evict each other')
    if len(first_of) > capacity:
        findings.refuse((*at, 'capacity'), f'{len(first_of)} keys feed this model; '
                                           'latest_per_key keeps one request per key, so the '
                                           f'capacity must be at least {len(first_of)}')
