"""The parameter ``metrics_port``: a live node is scraped, on loopback only."""

import socket
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from stage import config_text, image, model_text, stream_text

from vig_governor.metrics import CannotServe


def free_port():
    """Find a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def read(port, path):
    """Give the status code and the text of one address."""
    try:
        answer = urlopen(f'http://127.0.0.1:{port}/{path}', timeout=5)
    except HTTPError as error:
        answer = error
    return answer.status, answer.read().decode()


def test_a_live_node_is_scraped_and_says_whether_it_is_ready(stage):
    port = free_port()
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo')],
        streams=[stream_text('front', '/cam', 'detector')]))
    stage.governor(path, metrics_port=port)
    assert read(port, 'healthz') == (200, 'ok\n')
    assert read(port, 'readyz') == (503, 'the node is unconfigured\n')
    _, statuses = stage.outputs('/cam')
    stage.activate()
    assert read(port, 'readyz') == (200, 'ok\n')
    stage.camera().publish(image())
    statuses.wait_for(1)
    text = read(port, 'metrics')[1]
    assert 'vig_requests_completed_total{model="detector",stream="front"} 1.0' in text
    assert 'vig_decision_seconds_count' in text
    assert stage.change('deactivate')[0]
    assert read(port, 'readyz') == (503, 'the node is inactive\n')


def test_a_port_that_is_taken_keeps_the_node_from_starting(stage):
    with socket.socket() as other:
        other.bind(('127.0.0.1', 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotServe, match=f'metrics_port {port}'):
            stage.governor(metrics_port=port)
