"""Every rule of the block streams, and what streams get wrong together."""

from config_text import (
    assert_refused, changed, load, one_notice, SECOND_CAMERA, SIMPLE,
)

import pytest


def test_a_stream_to_an_unknown_model_is_refused(tmp_path):
    text = changed('model: detector\n', 'model: detectors\n')
    assert_refused(tmp_path, text, line=25, key='streams.front.model', value='detectors',
                   says=['is no model', 'did you mean detector?'])


def test_two_streams_on_one_output_topic_are_refused(tmp_path):
    text = SIMPLE + changed('/rear/image', '/front/image', SECOND_CAMERA)
    assert_refused(tmp_path, text, line=28, key='streams.rear.topic', value='/front/image',
                   says=['stream front', '/front/image/vig/result', 'streams.rear.output'])


def test_two_streams_read_one_topic_when_their_outputs_differ(tmp_path):
    both = changed('/rear/image', '/front/image', SECOND_CAMERA)
    config = load(tmp_path, SIMPLE + both.replace(
        'topic: /front/image', 'topic: /front/image\n    output: /front/pose'))
    assert [binding.output for binding in config.streams] == ['', '/front/pose']
    assert dict(config.system.streams) == {'front': 'detector', 'rear': 'detector'}


def test_an_output_that_ros_would_refuse_is_refused(tmp_path):
    text = changed('topic: /front/image', 'topic: /front/image\n    output: /front pose')
    assert_refused(tmp_path, text, line=24, key='streams.front.output', value='/front pose',
                   says=['is no ROS topic name'])


def test_topics_that_meet_in_the_root_namespace_are_noticed(tmp_path):
    text = SIMPLE + changed('/rear/image', 'front/image', SECOND_CAMERA)
    one_notice(tmp_path, text, 'streams.rear.topic', 'root namespace', line=28)


@pytest.mark.parametrize('topic', ['front image', '/front/', '//front', 'a__b', '"/1front"', '""'])
def test_a_topic_that_ros_would_refuse_is_refused(tmp_path, topic):
    assert_refused(tmp_path, changed('/front/image', topic), line=23, key='streams.front.topic',
                   value=topic, says=['is no ROS topic name', 'for example'])


def test_a_type_without_its_middle_part_is_completed(tmp_path):
    text = changed('sensor_msgs/msg/Image', 'sensor_msgs/Image')
    assert_refused(tmp_path, text, line=24, key='streams.front.type', value='sensor_msgs/Image',
                   says=['did you mean sensor_msgs/msg/Image?'])


def test_a_type_without_a_header_needs_the_arrival_as_its_time(tmp_path):
    text = changed('sensor_msgs/msg/Image', 'std_msgs/msg/Float32MultiArray')
    assert_refused(tmp_path, text, line=24, key='streams.front.type',
                   value='std_msgs/msg/Float32MultiArray', says=['time_source: arrival'])
    for remedy in ('time_source', 'bad_stamp'):
        load(tmp_path, text + f'    {remedy}: arrival\n')


@pytest.mark.parametrize('given, key, value, part', [
    ('std: [1, 0, 1]', 'std[1]', '0', 'divides by 0'),
    ('mean: [1, 2, 3], std: [1]', 'std', '', 'has 1 values and mean has 3'),
    ('mean: [1, 2]', 'mean', '', 'RGB needs 1 or 3'),
    ('color: GRAY, std: [1, 1, 1]', 'std', '', 'GRAY needs 1'),
    ('scale: 0', 'scale', '0', 'use 1'),
    ('letterbox: true', 'letterbox', 'true', 'needs size'),
    ('size: [300]', 'size', '', 'at least 2'),
    ('size: [0, 300]', 'size[0]', '0', 'at least 1'),
    ('color: rgb', 'color', 'rgb', 'RGB, BGR, GRAY'),
    ('dtype: float32', 'dtype', 'float32', 'FP32'),
])
def test_an_input_that_no_tensor_can_have_is_refused(tmp_path, given, key, value, part):
    text = changed('encoder: image', f'encoder: image, {given}')
    assert_refused(tmp_path, text, line=26, key=f'streams.front.input.{key}', value=value,
                   says=[part])


def test_more_keys_than_the_queue_keeps_are_refused(tmp_path):
    text = changed('policy: latest', 'policy: latest_per_key') + SECOND_CAMERA
    assert_refused(tmp_path, text, line=7, key='models.detector.queue.capacity', value='1',
                   says=['at least 2'])
    load(tmp_path, changed('capacity: 1', 'capacity: 2', text))


def test_two_streams_with_one_key_are_noticed(tmp_path):
    text = (changed('policy: latest', 'policy: latest_per_key') + '    key: same\n'
            + SECOND_CAMERA + '    key: same\n')
    one_notice(tmp_path, text, 'streams.rear.key', 'stream front has the same key', line=33)


def test_a_name_that_could_not_be_a_label_is_refused(tmp_path):
    text = changed('  front:', '  "front camera":')
    assert_refused(tmp_path, text, line=22, key='streams.front camera',
                   says=['letters, digits'])


def test_an_encoder_that_is_not_installed_here_is_noticed_with_the_nearest(tmp_path):
    one_notice(tmp_path, changed('encoder: image', 'encoder: imgae'),
               'streams.front.input.encoder', 'did you mean image?', line=26)
