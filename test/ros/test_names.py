"""Where topics end up: namespaces, remapping, and outputs that follow their input."""

from stage import config_text, image, model_text, Reader, stream_text

from vig.msg import InferenceResult


def start(stage, topic, *, remappings=(), namespace=''):
    path = stage.write(config_text(stage.endpoint, models=[model_text('detector', 'echo')],
                                   streams=[stream_text('front', topic, 'detector')]))
    stage.governor(path, namespace=namespace, remappings=remappings)
    stage.activate()


def see(stage, source, target):
    results, statuses = stage.outputs(target)
    stage.camera(source).publish(image())
    statuses.wait_for(1)
    results.wait_for(1)


def test_a_relative_topic_resolves_in_the_namespace(stage):
    start(stage, 'cam/image', namespace='robot1')
    see(stage, '/robot1/cam/image', '/robot1/cam/image')
    stage.status.wait_for(1)


def test_remapping_the_input_moves_its_outputs(stage):
    start(stage, '/cam', remappings=['/cam:=/left/image'])
    see(stage, '/left/image', '/left/image')


def test_an_output_can_be_remapped_by_itself(stage):
    start(stage, '/cam', remappings=['/cam/vig/result:=/boxes'])
    boxes = Reader(stage.client, InferenceResult, '/boxes')
    stage.camera('/cam').publish(image())
    boxes.wait_for(1)


def test_results_of_two_cameras_come_on_their_own_topics(stage):
    """R09: told apart by topic and by frame_id."""
    path = stage.write(config_text(
        stage.endpoint,
        models=[model_text('detector', 'echo', policy='latest_per_key', capacity=2)],
        streams=[stream_text('left', '/left', 'detector', extra='key: left'),
                 stream_text('right', '/right', 'detector', extra='key: right')]))
    stage.governor(path)
    stage.activate()
    left, _ = stage.outputs('/left')
    right, _ = stage.outputs('/right')
    cameras = stage.camera('/left'), stage.camera('/right')
    for side, camera in zip(('l', 'r'), cameras):
        camera.publish(image(frame_id=side))
    assert left.wait_for(1)[0].header.frame_id == 'l'
    assert right.wait_for(1)[0].header.frame_id == 'r'
    assert (left.messages[0].stream, right.messages[0].stream) == ('left', 'right')


def test_two_models_read_one_camera_through_outputs_of_their_own(stage):
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('one', 'echo'), model_text('two', 'quick')],
        streams=[stream_text('first', '/cam', 'one'),
                 stream_text('second', '/cam', 'two', extra='output: /second')]))
    stage.governor(path)
    stage.activate()
    first, _ = stage.outputs('/cam')
    second = Reader(stage.client, InferenceResult, '/second/result')
    stage.camera('/cam', subscribers=2).publish(image())
    assert first.wait_for(1)[0].stream == 'first'
    assert second.wait_for(1)[0].stream == 'second'


def test_two_inputs_that_are_remapped_onto_each_other_are_refused(stage):
    path = stage.write(config_text(
        stage.endpoint,
        models=[model_text('detector', 'echo', policy='latest_per_key', capacity=2)],
        streams=[stream_text('left', '/left', 'detector', extra='key: left'),
                 stream_text('right', '/right', 'detector', extra='key: right')]))
    stage.governor(path, remappings=['/right:=/left'])
    assert not stage.change('configure')[0]
    assert 'would both publish on /left/vig/status' in stage.node.last_failure
