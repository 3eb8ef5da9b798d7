"""What ``vig doctor`` hears of a real publisher: type, rate, size, stamps."""

from dataclasses import replace

import pytest
from sensor_msgs.msg import Image

from stage import bystander

from vig_governor.config import StreamBinding
from vig_governor.encoders.base import InputOptions
from vig_governor.graph_probe import probe

from waiting import wait_until

FRONT = StreamBinding('front', '/doctor_front/image', 'sensor_msgs/msg/Image', 'detector', 'front',
                      InputOptions('image', 'image'))


@pytest.fixture
def camera():
    """Publish images of 4 by 5 pixels at 50 Hz, every one with its time."""
    image = Image(height=4, width=5, encoding='rgb8', step=15, data=bytes(60))
    with bystander('doctor_camera') as node:
        publisher = node.create_publisher(Image, FRONT.topic, 1)

        def publish():
            image.header.stamp = node.get_clock().now().to_msg()
            publisher.publish(image)
        node.create_timer(0.02, publish)
        yield


def test_a_camera_is_heard_with_rate_size_and_the_age_of_its_frames(camera):
    def listen():
        heard = probe((FRONT,), 0.5).streams['front']
        return heard if heard.publishers and len(heard.arrivals_ns) >= 5 else None
    heard = wait_until(listen, 40, 'discovery, on a machine as busy as it may be')
    publisher, = heard.publishers
    assert (publisher.node, publisher.message_type) == (
        '/doctor_camera', 'sensor_msgs/msg/Image')
    assert publisher.incompatible == ''
    assert heard.largest_bytes == 60
    assert len(heard.ages_ns) == len(heard.arrivals_ns) and heard.zero_stamps == 0
    assert all(0 <= age < 10**9 for age in heard.ages_ns)


def test_a_topic_that_nobody_publishes_and_a_type_that_is_not_installed_are_no_error():
    silent = replace(FRONT, topic='/doctor_nobody/image')
    strange = replace(FRONT, name='strange', message_type='no_such_msgs/msg/Thing',
                      topic='/doctor_strange')
    found = probe((silent, strange), 0.1)
    assert found.streams['front'].publishers == () == found.streams['strange'].publishers
    assert found.governors == ()
