"""The whole node behind TLS and a token; and that the token is seen nowhere but there."""

from pathlib import Path

from certificates import make_certificates, TokenGate

import pytest

from rcl_interfaces.msg import Log

from stage import (
    config_text, image, model_text, prompts, Reader, stream_text, writer_text,
)

from vig_governor.config import load_config
from vig_governor.sros_policy import policy_of

from waiting import wait_until

TOKEN = 'kept-between-us'


def test_a_frame_runs_through_tls_with_a_token_that_nobody_sees(stage, tmp_path):
    folder = make_certificates(tmp_path)
    (folder / 'token').write_text(TOKEN)
    log = Reader(stage.client, Log, '/rosout')
    with TokenGate(stage.endpoint, folder, TOKEN) as gate:
        path = stage.write(config_text(
            gate.endpoint, models=[model_text('detector', 'echo')],
            backend='  security: {root_certificates: ca.pem, token_file: token}\n',
            streams=[stream_text('front', '/cam', 'detector')]))
        trace = tmp_path / 'run.mcap'
        stage.governor(path, record=str(trace), log_decisions=True)
        stage.activate()
        results, statuses = stage.outputs('/cam')
        stage.camera().publish(image())
        results.wait_for(1)
        statuses.wait_for(1)
        stage.entry('backend', b'\x00', 'triton')
        stage.change('deactivate')
        stage.change('cleanup')
    said = repr([stage.diagnostics.messages, stage.status.messages, statuses.messages,
                 log.messages, stage.node.last_failure])
    assert 'detector' in said and TOKEN not in said
    assert TOKEN not in Path(trace).read_text(errors='replace')


def test_a_server_that_refuses_the_token_is_no_traceback(stage, tmp_path):
    folder = make_certificates(tmp_path)
    with TokenGate(stage.endpoint, folder, TOKEN) as gate:
        stage.governor(stage.write(config_text(
            gate.endpoint, models=[model_text('detector', 'echo')],
            backend='  security: {root_certificates: ca.pem}\n',
            streams=[stream_text('front', '/cam', 'detector')])))
        success, seconds = stage.change('configure')
    assert not success and seconds < 5
    assert 'the server wants a token' in stage.node.last_failure


@pytest.mark.parametrize('namespace, has_sim_time', [('', False), ('robot', True)])
def test_the_policy_allows_what_the_node_does_and_nothing_else(stage, namespace, has_sim_time):
    path = stage.write(config_text(
        stage.endpoint, models=[model_text('detector', 'echo'), writer_text()],
        streams=[stream_text('front', '/cam', 'detector'), prompts(),
                 stream_text('rear', 'rear/image', 'detector', extra='output: ~/seen')]))
    stage.governor(path, namespace=namespace, use_sim_time=has_sim_time)
    stage.activate()
    profile = policy_of(load_config(path), namespace=f'/{namespace}',
                        has_sim_time=has_sim_time).find('.//profile')

    def allowed(block, rule):
        return {each.text for found in profile.findall(block) if found.get(rule) == 'ALLOW'
                for each in found}

    def used(ask):
        return {name for name, _ in ask('governor', f'/{namespace}')}

    client = stage.client
    published = allowed('topics', 'publish')
    wait_until(lambda: used(client.get_publisher_names_and_types_by_node) == published, 5.0,
               lambda: used(client.get_publisher_names_and_types_by_node) ^ published)
    assert used(client.get_subscriber_names_and_types_by_node) == allowed('topics', 'subscribe')
    assert used(client.get_service_names_and_types_by_node) == allowed('services', 'reply')
    assert not used(client.get_client_names_and_types_by_node)
