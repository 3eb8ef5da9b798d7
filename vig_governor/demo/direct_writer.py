"""
The node that most robots have for a language model: each question goes straight to the server.

A question is answered in one request, as long as its answer is. The node publishes the same
messages on the same topics as the governor, so that both are measured at one boundary.
"""

import argparse
from dataclasses import replace
from functools import partial
import itertools
import sys

from rclpy.node import Node
from rclpy.qos import QoSProfile
from std_msgs.msg import Header, String
from vig.msg import GeneratedText, RequestStatus

from vig_governor.backend.base import Answered, Outcome
from vig_governor.backend.senders import Senders
from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.direct import CLOSE_TIMEOUT_S, duration, run_node, STATUS_DEPTH
from vig_governor.demo.language_repository import OPTIONS
from vig_governor.generation import Generation, UnusableAnswer

SLOTS = 4
INSPECT_TIMEOUT_S = 5.0


class DirectWriter(Node):
    """
    Sends questions to one backend model and publishes what it writes.

    :param template: stands around each question, with ``{prompt}`` in its place.
    """

    def __init__(self, backend: TritonBackend, *, name: str, topic: str, model: str,
                 max_tokens: int, template: str) -> None:
        super().__init__(f'{name}_direct')
        self._backend = backend
        self._name = name
        self._model = model
        self._max_tokens = max_tokens
        self._options = replace(OPTIONS, template=template)
        self._signature = backend.inspect(model, timeout_s=INSPECT_TIMEOUT_S)
        self._senders = Senders('direct')
        self._numbers = itertools.count(1)
        reliable = QoSProfile(depth=STATUS_DEPTH)
        self._texts = self.create_publisher(GeneratedText, topic + '/vig/generated', reliable)
        self._statuses = self.create_publisher(RequestStatus, topic + '/vig/status', reliable)
        self.create_subscription(String, topic, self._on_question, SLOTS)

    def close(self) -> None:
        """Let what is in flight end; afterwards the node may be destroyed."""
        self._senders.close(timeout_s=CLOSE_TIMEOUT_S)

    def _on_question(self, question: String) -> None:
        header = Header(stamp=self.get_clock().now().to_msg())
        self._senders.submit(partial(self._send, header, next(self._numbers), question.data))

    def _send(self, header: Header, number: int, question: str) -> None:
        sent_ns = self.get_clock().now().nanoseconds
        job = Generation(self._options, question)
        slot = self._backend.acquire(self._name, number)
        job.fill(slot, self._max_tokens, self._signature)
        self._backend.infer(number, self._model, slot,
                            partial(self._on_end, header, number, job, sent_ns))

    def _on_end(self, header: Header, number: int, job: Generation, sent_ns: int,
                outcome: Outcome) -> None:
        self._backend.release(number)
        problem = '' if isinstance(outcome, Answered) else outcome.detail
        if isinstance(outcome, Answered):
            try:
                job.append(job.read(outcome.outputs, self._max_tokens))
            except UnusableAnswer as error:
                problem = str(error)
        if not problem:
            self._texts.publish(GeneratedText(
                header=header, stream=self._name, model=self._model, variant=self._model,
                request_id=number, text=job.take_text(is_last=True), finished=True,
                finish_reason=GeneratedText.FINISH_LENGTH if job.tokens == self._max_tokens
                else GeneratedText.FINISH_END_OF_SEQUENCE,
                tokens=job.tokens, quanta=job.quanta))
        took = duration(self.get_clock().now().nanoseconds - sent_ns)
        self._statuses.publish(RequestStatus(
            header=header, stream=self._name, model=self._model, variant=self._model,
            request_id=number, detail=problem, backend_time=took, age=took,
            reason=RequestStatus.BACKEND_FAILED if problem else RequestStatus.COMPLETED))


def main() -> int:
    """Run the command line until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog='python -m vig_governor.demo.direct_writer',
                                     description='Send questions straight to the server.')
    parser.add_argument('--name', required=True)
    parser.add_argument('--topic', required=True)
    parser.add_argument('--model', required=True, help='backend model')
    parser.add_argument('--endpoint', required=True, help='gRPC endpoint, host:port')
    parser.add_argument('--max-tokens', type=int, required=True)
    parser.add_argument('--template', default='{prompt}')
    options = parser.parse_args()
    return run_node(options.endpoint, options.name, SLOTS, lambda backend: DirectWriter(
        backend, name=options.name, topic=options.topic, model=options.model,
        max_tokens=options.max_tokens, template=options.template))


if __name__ == '__main__':
    sys.exit(main())
