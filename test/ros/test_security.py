"""The whole node behind TLS and a token; and that the token is seen nowhere but there."""

from pathlib import Path

from certificates import make_certificates, TokenGate

from rcl_interfaces.msg import Log

from stage import config_text, image, model_text, Reader, stream_text

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
        trace = tmp_path / 'run.trace'
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
