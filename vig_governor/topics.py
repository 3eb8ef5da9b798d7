"""
The topics of the configured streams, opened on the node.

Every function takes the node first and what it makes goes onto ``made``, which undoes it.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.exceptions import InvalidTopicNameException
from rclpy.qos import qos_policy_name_from_kind

from vig.msg import GeneratedText, InferenceResult, RequestStatus

from vig_core.errors import VigError

from vig_governor import qos
from vig_governor.config import StreamBinding
from vig_governor.diagnostics import StreamDiagnostics
from vig_governor.encoders.reference import REFERENCE_TYPE
from vig_governor.publishing import StreamOutputs
from vig_governor.session import Governed, Session


class CannotStart(VigError):
    """The node's own parameters or topics are not usable; says which and what would be."""


def resolve(node: Any, governed: Governed) -> None:
    """
    Resolve every input topic and where its outputs go: below it, unless the file says.

    So remapping an input moves its outputs, and an output can still be remapped by itself.
    Two streams must not share their outputs.
    """
    taken: dict[str, str] = {}
    for binding in governed.config.streams:
        topic = _checked(node, binding, binding.topic, node.resolve_topic_name)
        output = (_checked(node, binding, binding.output, node.resolve_topic_name)
                  if binding.output else f'{topic}/vig')
        if output in taken:
            raise CannotStart(
                f'streams {taken[output]!r} and {binding.name!r} would both publish on '
                f'{output}/status: give one of them an output of its own '
                f'(streams.{binding.name}.output) or remap its topic')
        taken[output] = binding.name
        governed.topics[binding.name] = topic
        governed.output_topics[binding.name] = output


def open_outputs(node: Any, governed: Governed, binding: StreamBinding, made: ExitStack) -> None:
    """Open where the results, or the texts, and the statuses of a stream go."""
    output = governed.output_topics[binding.name]
    first = ((GeneratedText, 'generated', qos.status_qos()) if binding.is_generative else
             (InferenceResult, 'result', qos.result_qos()))
    governed.outputs[binding.name] = StreamOutputs(binding, *(
        _publisher(node, binding, f'{output}/{suffix}', kind, profile, made)
        for kind, suffix, profile in (first, (RequestStatus, 'status', qos.status_qos()))))


def open_job_outputs(node: Any, governed: Governed, made: ExitStack) -> None:
    """Open where the texts and the statuses of all jobs of ``~/generate`` go."""
    jobs = governed.config.job_streams
    if not jobs:
        return
    publishers = [_publisher(node, jobs[0], topic, kind, qos.status_qos(), made)
                  for topic, kind in (('~/generated', GeneratedText),
                                      ('~/generate/status', RequestStatus))]
    for binding in jobs:
        governed.outputs[binding.name] = StreamOutputs(binding, *publishers)


def open_input(node: Any, governed: Governed, session: Session, binding: StreamBinding,
               made: ExitStack) -> None:
    """Subscribe, and watch the stream for the diagnostics."""
    intake = session.intakes[binding.name]
    topic = governed.topics[binding.name]
    model = governed.assembly.system.models[binding.model]
    depth = 1 if model.policy.is_latest else model.capacity
    if binding.message_type == REFERENCE_TYPE:
        # A reference that the middleware drops has no status, and its producer waits for one.
        depth = max(depth, qos.REFERENCE_DEPTH)
    profile = qos.input_qos(depth)

    def note_incompatible_qos(event: Any) -> None:
        policy = qos_policy_name_from_kind(event.last_policy_kind)
        intake.mismatch = (
            f'a publisher on {topic} offers an incompatible {policy}, so nothing is received '
            f'from it; this subscription asks for {qos.describe(profile)}, see the '
            f'parameters qos_overrides.{topic}.subscription.*')
        node.get_logger().error(f'stream {binding.name}: {intake.mismatch}')

    subscription = _checked(
        node, binding, binding.topic,
        partial(node.create_subscription, governed.classes[binding.name]), intake, profile,
        event_callbacks=SubscriptionEventCallbacks(incompatible_qos=note_incompatible_qos),
        qos_overriding_options=qos.overridable(), raw=intake.reads_bytes)
    made.callback(node.destroy_subscription, subscription)
    session.monitors.append(StreamDiagnostics(
        intake, model, topic,
        lambda: session.publishing.faults.get(binding.name, '')))


def _publisher(node: Any, binding: StreamBinding, topic: str, kind: type[Any], profile: Any,
               made: ExitStack) -> Any:
    publisher = _checked(node, binding, topic, partial(node.create_lifecycle_publisher, kind),
                         profile, qos_overriding_options=qos.overridable())
    made.callback(node.destroy_lifecycle_publisher, publisher)
    return publisher


def _checked(node: Any, binding: StreamBinding, topic: str, create: Callable[..., Any],
             *args: Any, **kwargs: Any) -> Any:
    try:
        return create(topic, *args, **kwargs)
    except InvalidTopicNameException as error:
        raise CannotStart(f'streams.{binding.name}.topic: {topic!r} is no topic name: '
                          f'{" ".join(str(error).split())}') from None
    except qos.OVERRIDE_FAULTS as error:
        raise qos.refused_override(node.resolve_topic_name(topic), error) from None
