"""Generative jobs in the world of a fault: by service and by topic, and how each of them ends."""

from collections import Counter

from benchmark.faults.staging import (add_model, STREAMED_WRITER, until, WRITER,
                                      WRITER_TOKEN_MS)
from benchmark.faults.world import REASONS, World

from rclpy.qos import QoSProfile, QoSReliabilityPolicy

from std_msgs.msg import String

from vig.msg import RequestStatus
from vig.srv import Generate

LINE = 'count to 20:'


class Jobs:
    """
    A node with a generative model in a world, and clients of it; a context manager.

    Prompts carry no stamp, so those of the topic are counted; jobs of the service are known by
    their number.

    :param is_streamed: whether the model is decoupled, so that each token comes by itself.
    """

    def __init__(self, world: World, *, is_streamed: bool = False) -> None:
        self._world = world
        self._is_streamed = is_streamed
        self._accepted: list[int] = []
        self._prompts = 0
        self._of_service: list[RequestStatus] = []
        self._of_topic: list[RequestStatus] = []

    def __enter__(self) -> 'Jobs':
        world, node = self._world, self._world.node
        add_model(world.models, 'writer', 'counter', WRITER_TOKEN_MS)
        if self._is_streamed:
            with open(world.models / 'writer' / 'config.pbtxt', 'a', encoding='utf-8') as config:
                config.write('model_transaction_policy { decoupled: true }\n')
        world.server.load_model('writer')
        reliable = QoSProfile(depth=100, reliability=QoSReliabilityPolicy.RELIABLE)
        self._readers = [
            node.create_subscription(RequestStatus, topic, kept.append, reliable)
            for topic, kept in (('/governor/generate/status', self._of_service),
                                ('/ask/vig/status', self._of_topic))]
        self._asker = node.create_publisher(String, '/ask', reliable)
        self._service = node.create_client(Generate, '/governor/generate')
        world.start_node(writer=STREAMED_WRITER if self._is_streamed else WRITER)
        self.wait_until_listening()
        assert self.ends_of_one() == {'completed': 2}, world.log[-2500:]
        return self

    def __exit__(self, *error: object) -> None:
        for reader in self._readers:
            self._world.node.destroy_subscription(reader)
        self._world.node.destroy_publisher(self._asker)
        self._world.node.destroy_client(self._service)

    def wait_until_listening(self) -> None:
        """Wait until the node is active, takes prompts and jobs, and its statuses are heard."""
        node = self._world.node
        self._world.wait_until_listening()
        until(lambda: (self._asker.get_subscription_count() == 1
                       and self._service.service_is_ready()
                       and all(node.count_publishers(reader.topic_name) == 1
                               for reader in self._readers)), 10.0, 'the node takes no jobs')

    def start_server(self) -> None:
        """Start the server again, with the generative model."""
        self._world.server.start()
        self._world.server.load_model('writer')

    def ask(self, count: int = 1, line: str = LINE) -> None:
        """Ask for so many jobs by service, and as many by topic."""
        for _ in range(count):
            future = self._service.call_async(Generate.Request(model='writer', prompt=line))
            until(future.done, 5.0, 'the service does not answer')
            answer = future.result()
            assert answer.accepted, answer.message
            self._accepted.append(answer.request_id)
            self._prompts += 1
            self._asker.publish(String(data=line))

    def be_busy(self) -> None:
        """Ask for four jobs and wait until one of them is with the server."""
        before = self._dispatched
        self.ask(2)
        until(lambda: self._dispatched > before, 5.0, 'no job was sent')

    def ends(self, timeout_s: float = 12.0) -> Counter[str]:
        """
        Wait until every job has ended since the last call, and count the reasons.

        :raises AssertionError: one has no status, or more than one.
        """
        until(lambda: len(self._of_service) >= len(self._accepted)
              and len(self._of_topic) >= self._prompts, timeout_s, lambda: (
                  f'{len(self._of_service)} of {len(self._accepted)} jobs and '
                  f'{len(self._of_topic)} of {self._prompts} prompts have ended; the node said:\n'
                  f'{self._world.log[-2500:]}'))
        of_service = [status.request_id for status in self._of_service]
        assert sorted(of_service) == sorted(self._accepted), (of_service, self._accepted)
        of_topic = [status.request_id for status in self._of_topic]
        assert len(set(of_topic)) == len(of_topic) == self._prompts, of_topic
        ended = Counter(REASONS[status.reason] for status in self._of_service + self._of_topic)
        self._of_service.clear()
        self._of_topic.clear()
        self._accepted.clear()
        self._prompts = 0
        return ended

    def ends_of_one(self) -> Counter[str]:
        """Ask for one short job by each way and count how they end."""
        self.ask(line='count to 2:')
        return self.ends()

    @property
    def _dispatched(self) -> int:
        return sum(self._world.dispatched(name) for name in ('generate/writer', 'questions'))
