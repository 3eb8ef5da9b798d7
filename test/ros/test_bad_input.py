"""What an operator gets wrong: a sentence, FAILURE within five seconds, and another chance."""

import pytest

from rclpy.parameter import Parameter

from sensor_msgs.msg import Image

from stage import config_text, image, model_text, stream_text

from vig.msg import RequestStatus


def detector(backend_model='echo', **options):
    return [model_text('detector', backend_model, **options)]


CASES = {
    'an unreachable server': (
        lambda stage: config_text('127.0.0.1:9', models=detector(),
                                  streams=[stream_text('front', '/cam', 'detector')]),
        ['no Triton server answered at 127.0.0.1:9', 'backend.grpc_endpoint']),
    'a missing model': (
        lambda stage: config_text(stage.endpoint, models=detector('nothing'),
                                  streams=[stream_text('front', '/cam', 'detector')]),
        ["no model 'nothing'", 'models.detector.variants']),
    'a wrong input tensor': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', tensor='PICTURE')]),
        ["has no input 'PICTURE'", 'its inputs are IMAGE', 'streams.front.input.tensor']),
    'a wrong element type': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', dtype='FP32')]),
        ['streams.front.input', 'UINT8']),
    'an input that nothing fills': (
        lambda stage: config_text(stage.endpoint, models=detector('pair'), streams=[
            stream_text('front', '/cam', 'detector')]),
        ['streams.front.input', "'THRESHOLD'", 'nothing fills']),
    'a wrong input shape': (
        lambda stage: config_text(stage.endpoint, models=detector('sized'), streams=[
            stream_text('front', '/cam', 'detector', dtype='FP32')]),
        ['streams.front.input', '640']),
    'an unknown message type': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', message_type='sensor_msgs/msg/Imag')]),
        ['streams.front.type', 'did you mean sensor_msgs/msg/Image?']),
    'a message type of a package that is not there': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', message_type='radar_msgs/msg/Scan')]),
        ['streams.front.type', 'radar_msgs']),
    'a type without a header': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', encoder='raw',
                        message_type='std_msgs/msg/UInt8MultiArray')]),
        ['streams.front.type', 'time_source: arrival']),
    'an encoder that does not exist': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector', encoder='imagge')]),
        ['imagge', 'image']),
    'two streams on one topic': (
        lambda stage: config_text(stage.endpoint, models=detector(), streams=[
            stream_text('front', '/cam', 'detector'), stream_text('rear', '/cam', 'detector')]),
        ['front', 'rear', '/cam']),
    'a topic that is no name': (
        lambda stage: config_text(stage.endpoint, models=detector(),
                                  streams=[stream_text('front', '/cam//x y', 'detector')]),
        ['streams.front.topic', '/cam//x y']),
    'a model of the server that no contract names under trust: strict': (
        lambda stage: config_text(stage.endpoint, models=detector(), backend='  trust: strict\n',
                                  streams=[stream_text('front', '/cam', 'detector')]),
        ['backend.trust', 'failing, pair', 'unload them']),
    'a token that cannot be read': (
        lambda stage: config_text(
            stage.endpoint, models=detector(),
            backend=f'  security: {{token_file: {stage.write("two words", "token")}}}\n',
            streams=[stream_text('front', '/cam', 'detector')]),
        ['backend.security.token_file', 'one word']),
    'a stream of an unknown model': (
        lambda stage: config_text(stage.endpoint, models=detector(),
                                  streams=[stream_text('front', '/cam', 'detektor')]),
        ['streams.front.model', 'detector']),
}


@pytest.mark.parametrize('name', CASES)
def test_configure_refuses_with_a_sentence_and_can_be_tried_again(stage, name):
    make, expected = CASES[name]
    path = stage.write(make(stage))
    stage.governor(path)
    success, seconds = stage.change('configure')
    assert not success and seconds < 5
    for part in expected:
        assert part in stage.node.last_failure
    assert 'Traceback' not in stage.node.last_failure
    stage.write(config_text(stage.endpoint, models=detector(),
                            streams=[stream_text('front', '/cam', 'detector')]))
    assert stage.change('configure')[0], stage.node.last_failure
    assert stage.state() == 'inactive'


def test_a_path_that_is_a_folder_or_missing_or_empty_is_named(stage):
    stage.governor('')
    for value, expected in (('', 'the parameter config is empty'),
                            (str(stage.folder), str(stage.folder)),
                            (str(stage.folder / 'none.yaml'), 'none.yaml')):
        stage.node.set_parameters([Parameter('config', value=value)])
        success, seconds = stage.change('configure')
        assert not success and seconds < 5
        assert expected in stage.node.last_failure
        assert stage.state() == 'unconfigured'


def test_a_frame_with_an_unknown_encoding_ends_alone_with_the_supported_ones_named(stage):
    results, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    wrong = image()
    wrong.encoding = 'rgb9'
    camera.publish(wrong)
    statuses.wait_for(1)
    camera.publish(image())
    statuses.wait_for(2)
    assert statuses.messages[0].reason == RequestStatus.BACKEND_FAILED
    assert "'rgb9'" in statuses.messages[0].detail and 'bgr8' in statuses.messages[0].detail
    assert statuses.messages[1].reason == RequestStatus.COMPLETED


def test_a_frame_whose_data_is_too_short_ends_alone(stage):
    _, statuses = stage.one_camera()
    stage.activate()
    camera = stage.camera()
    wrong = image()
    wrong.data = wrong.data[:10]
    camera.publish(wrong)
    statuses.wait_for(1)
    camera.publish(Image())
    statuses.wait_for(2)
    camera.publish(image())
    statuses.wait_for(3)
    assert [status.reason for status in statuses.messages] == [
        RequestStatus.BACKEND_FAILED, RequestStatus.INVALID_STAMP, RequestStatus.COMPLETED]


def test_an_impossible_qos_override_is_named(stage):
    path = stage.write(config_text(stage.endpoint, models=detector(),
                                   streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, **{'qos_overrides./cam.subscription.reliability': 'perhaps'})
    assert stage.change('configure')[0]
    assert not stage.change('activate')[0]
    assert 'qos_overrides./cam' in stage.node.last_failure
    assert 'perhaps' in stage.node.last_failure
    assert stage.state() == 'inactive'
