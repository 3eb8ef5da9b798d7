"""A governor in this process with everything around it: cameras, readers, lifecycle services."""

from contextlib import contextmanager, ExitStack
from pathlib import Path
import threading
import time

from diagnostic_msgs.msg import DiagnosticArray

from lifecycle_msgs.srv import ChangeState, GetState

import numpy as np

import rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile, QoSReliabilityPolicy
from rclpy.task import Future

from sensor_msgs.msg import Image

from vig.msg import GovernorStatus, InferenceResult, RequestStatus

from vig_governor.node import GovernorNode
from vig_governor.process import make_executor, spin_until

from waiting import wait_until

TRANSITIONS = {'configure': 1, 'cleanup': 2, 'activate': 3, 'deactivate': 4}
SHUTDOWN = {'unconfigured': 5, 'inactive': 6, 'active': 7}


def model_text(name, backend_model, *, runtime_ms=60, deadline_ms=4000, max_age_ms=9000,
               policy='latest', capacity=1, extra=''):
    """Write one block of ``models``."""
    return f"""\
  {name}:
    class: normal
    queue: {{policy: {policy}, capacity: {capacity}}}
    contract: {{deadline_ms: {deadline_ms}, max_age_ms: {max_age_ms}}}
    variants:
      - id: only
        backend_model: {backend_model}
        quality: {{value: 0.75, source: user_declared}}
        profile: {{p50_us: {runtime_ms * 1000}, p99_us: {runtime_ms * 1000 + 1000}}}
{extra}"""


COOPERATIVE = """\
    cooperative:
      tokens_per_second: {rate}
      base_cost_us: 1000
      min_tokens: 2
      max_total_tokens: {bound}
      tokens_tensor: TOKENS
      end_tensor: END
      max_prompt_bytes: 100
{more}"""
ALONE = '      split: true\n'
WHOLE = '      split: false\n'


def writer_text(name='writer', backend_model='counter', *, bound=20, more=ALONE, rate=150,
                decoupled=False, max_age_ms=60_000):
    """Write one block of ``models`` for a generative model."""
    extra = COOPERATIVE.format(bound=bound, more=more, rate=rate) + (
        '    decoupled: true\n' if decoupled else '')
    return model_text(name, backend_model, policy='fifo', capacity=4, runtime_ms=100,
                      deadline_ms=30_000, max_age_ms=max_age_ms, extra=extra)


def prompts(topic='/ask', extra=''):
    """Write one block of ``streams`` that brings prompts."""
    return (f'  questions:\n    topic: {topic}\n    type: std_msgs/msg/String\n'
            f'    model: writer\n    time_source: arrival\n{extra}')


def stream_text(name, topic, model, *, tensor='IMAGE', message_type='sensor_msgs/msg/Image',
                dtype='UINT8', encoder='image', extra=''):
    """Write one block of ``streams``; ``extra`` is a line such as ``bad_stamp: arrival``."""
    line = f'\n    {extra}' if extra else ''
    return f"""\
  {name}:
    topic: {topic}
    type: {message_type}
    model: {model}
    input: {{tensor: {tensor}, encoder: {encoder}, dtype: {dtype}, layout: HWC}}{line}
"""


def config_text(endpoint, *, models, streams, backend=''):
    """Write a whole vig.yaml."""
    return (f'version: 1\nbackend:\n  grpc_endpoint: "{endpoint}"\n  slots: 1\n'
            f'  drain_deadline_s: 2\n{backend}'
            f'models:\n{"".join(models)}streams:\n{"".join(streams)}')


def image(value=7, *, stamp_ns=None, frame_id='front_optical', width=8, height=6):
    """Make a small rgb8 frame of one value; ``stamp_ns`` defaults to now."""
    stamp_ns = time.time_ns() if stamp_ns is None else stamp_ns
    message = Image(width=width, height=height, encoding='rgb8', step=3 * width)
    message.header.frame_id = frame_id
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(stamp_ns, 10**9)
    message.data = np.full(height * width * 3, value, np.uint8).tobytes()
    return message


class Reader:
    """Keeps every message of one topic."""

    def __init__(self, node, kind, topic, depth=200):
        self.messages = []
        qos = QoSProfile(depth=depth, reliability=QoSReliabilityPolicy.RELIABLE)
        self.subscription = node.create_subscription(kind, topic, self.messages.append, qos)

    def __len__(self):
        return len(self.messages)

    def wait_for(self, count, timeout=10.0):
        """Give the messages when there are at least ``count``."""
        wait_until(lambda: len(self.messages) >= count, timeout,
                   lambda: f'{count} messages on {self.subscription.topic_name}, '
                           f'there are {len(self.messages)}')
        return self.messages


def feed(camera, reader, times=1):
    """Publish frames one by one, each when the reader has a message more."""
    for _ in range(times):
        count = len(reader) + 1
        camera.publish(image())
        reader.wait_for(count)


class Spinning:
    """One node on an executor of its own in a thread of its own."""

    def __init__(self, node, executor):
        self.node = node
        self._executor = executor
        executor.add_node(node)
        self._done = Future(executor=executor)
        self._thread = threading.Thread(target=spin_until, args=(executor, self._done))
        self._thread.start()

    def close(self):
        self._executor.create_task(self._done.set_result, None)
        self._thread.join(30)
        assert not self._thread.is_alive(), 'the executor does not end'
        self._executor.remove_node(self.node)
        self._executor.shutdown()
        self.node.destroy_node()


@contextmanager
def bystander(name):
    """Give a node that spins in a context of its own, beside whatever else runs here."""
    context = rclpy.Context()
    rclpy.init(context=context)
    spinning = Spinning(rclpy.create_node(name, context=context),
                        SingleThreadedExecutor(context=context))
    try:
        yield spinning.node
    finally:
        spinning.close()
        rclpy.shutdown(context=context)


class Stage:
    """
    The world of one test; a context manager.

    :param folder: for configuration files.
    :param endpoint: of the Triton server.
    """

    def __init__(self, folder, endpoint):
        self.folder = Path(folder)
        self.endpoint = endpoint
        self._made = ExitStack()
        self.client = rclpy.create_node('client')
        self._made.callback(Spinning(self.client, SingleThreadedExecutor()).close)
        self.diagnostics = Reader(self.client, DiagnosticArray, '/diagnostics')
        self.node = None
        self.prefix = ''

    def close(self):
        self._made.close()

    def write(self, text, name='vig.yaml'):
        """Write a configuration file and give its path."""
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def governor(self, config='', *, namespace='', remappings=(), **parameters):
        """Start the node, unconfigured; it reports ten times a second."""
        values = {'config': config, 'diagnostics_period_s': 0.1, **parameters}
        arguments = ['--ros-args']
        for rule in remappings:
            arguments += ['-r', rule]
        self.node = GovernorNode(
            namespace=namespace or None, cli_args=arguments, use_global_arguments=False,
            parameter_overrides=[Parameter(key, value=value) for key, value in values.items()])
        self._made.callback(Spinning(self.node, make_executor()).close)
        self.prefix = f'/{namespace}/governor' if namespace else '/governor'
        self.status = Reader(self.client, GovernorStatus, f'{self.prefix}/status')
        self._change = self.client.create_client(ChangeState, f'{self.prefix}/change_state')
        self._get = self.client.create_client(GetState, f'{self.prefix}/get_state')
        assert self._change.wait_for_service(10.0)
        assert self._get.wait_for_service(10.0)
        return self.node

    def one_camera(self, *, backend_model='echo', topic='/cam', stream_extra='', **model):
        """Start a governor with one camera stream ``front``; give result and status readers."""
        path = self.write(config_text(
            self.endpoint, models=[model_text('detector', backend_model, **model)],
            streams=[stream_text('front', topic, 'detector', extra=stream_extra)]))
        self.governor(path)
        return self.outputs(topic)

    def outputs(self, topic):
        """Read the results and the statuses of one input topic."""
        return (Reader(self.client, InferenceResult, f'{topic}/vig/result'),
                Reader(self.client, RequestStatus, f'{topic}/vig/status'))

    def call(self, client, request, timeout=10.0):
        """Call a service and give its answer."""
        future = client.call_async(request)
        wait_until(future.done, timeout, f'no answer of {client.srv_name}')
        return future.result()

    def change(self, transition):
        """Ask for a transition by the lifecycle service; give (success, seconds it took)."""
        number = (SHUTDOWN[self.state()] if transition == 'shutdown'
                  else TRANSITIONS[transition])
        request = ChangeState.Request()
        request.transition.id = number
        begin = time.monotonic()
        success = self.call(self._change, request, 30.0).success
        return success, time.monotonic() - begin

    def state(self):
        """Ask for the lifecycle state."""
        return self.call(self._get, GetState.Request()).current_state.label

    def activate(self):
        """Configure and activate."""
        assert self.change('configure')[0], self.node.last_failure
        assert self.change('activate')[0], self.node.last_failure

    def camera(self, topic='/cam', *, reliable=False, kind=Image, subscribers=1):
        """Make a publisher and wait until the governor and it have found each other."""
        qos = QoSProfile(depth=10, reliability=(
            QoSReliabilityPolicy.RELIABLE if reliable else QoSReliabilityPolicy.BEST_EFFORT))
        publisher = self.client.create_publisher(kind, topic, qos)
        wait_until(lambda: publisher.get_subscription_count() == subscribers, 10,
                   f'{topic} has {publisher.get_subscription_count()} subscribers')
        return publisher

    def entry(self, part, level, text, timeout=8.0):
        """Wait for a diagnostics entry whose name ends in ``part`` and give it."""
        def newest():
            for array in reversed(self.diagnostics.messages[-5:]):
                for status in array.status:
                    if (status.name.endswith(part) and status.level == level
                            and text in status.message):
                        return status
            return None
        return wait_until(newest, timeout, lambda: (
            f'no entry {part} with level {level!r} and {text!r}; the last are '
            f'{self.diagnostics.messages[-1:]}'))
