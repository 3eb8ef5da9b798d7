"""TLS against a real Triton, and a token against a gate that demands one."""

from dataclasses import replace
import logging

from certificates import make_certificates, openssl, TokenGate
import numpy as np
import pytest
from triton_fixture import Asker, MODELS, require_triton
from vig_governor.backend.base import Answered, BackendUnavailable
from vig_governor.backend.credentials import load_credentials, UnusableCredentials
from vig_governor.backend.triton import TritonBackend
from vig_governor.config import SecurityOptions
from vig_governor.triton_server import TritonServer

PIXEL = np.full((1, 1, 3), 7, np.uint8)
TOKEN = 'first-of-december'


@pytest.fixture(scope='module')
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp('certificates'))


def options(folder, root='ca', client=''):
    """Give the options that a file with these names would give."""
    made = SecurityOptions(root_certificates=str(folder / f'{root}.pem'))
    if client:
        made = replace(made, certificate_chain=str(folder / f'{client}.pem'),
                       private_key=str(folder / f'{client}.key'))
    return made


def tls_server(folder, certificate='server', *, mutual=False):
    """Make a Triton that speaks TLS only; not started yet."""
    require_triton()
    return TritonServer(MODELS, load=['echo'], arguments=[
        f'--grpc-use-ssl{"-mutual" if mutual else ""}=true',
        f'--grpc-server-cert={folder / certificate}.pem',
        f'--grpc-server-key={folder / certificate}.key', f'--grpc-root-cert={folder / "ca"}.pem'])


@pytest.fixture(scope='module')
def tls(certificates):
    with tls_server(certificates) as server:
        yield server


@pytest.fixture(scope='module')
def mutual(certificates):
    with tls_server(certificates, mutual=True) as server:
        yield server


@pytest.fixture
def connected(request):
    """Give a function that makes a backend; all are closed at the end."""
    def make(endpoint, security=SecurityOptions()):
        backend = TritonBackend(endpoint, credentials=load_credentials(security))
        request.addfinalizer(backend.close)
        return backend
    return make


def answers(backend):
    """Whether a frame goes there and its result comes back."""
    backend.connect(timeout_s=5.0)
    backend.inspect('echo', timeout_s=5.0)
    backend.open_stream('front', slots=1, transport='auto')
    return isinstance(Asker(backend).ask('front', 'echo', IMAGE=PIXEL), Answered)


def refusal(backend):
    """Give what an attempt to connect says."""
    with pytest.raises(BackendUnavailable) as caught:
        backend.connect(timeout_s=0.8)
    return str(caught.value)


def test_frames_run_through_tls(tls, certificates, connected):
    assert answers(connected(tls.grpc_endpoint, options(certificates)))


def test_a_server_that_checks_its_clients_takes_ours(mutual, certificates, connected):
    assert answers(connected(mutual.grpc_endpoint, options(certificates, client='client')))
    said = refusal(connected(mutual.grpc_endpoint, options(certificates)))
    assert 'backend.security.private_key' in said


def test_a_server_of_another_authority_is_not_spoken_to(tls, certificates, connected):
    said = refusal(connected(tls.grpc_endpoint, options(certificates, root='stranger')))
    assert 'not signed by one of backend.security.root_certificates' in said


def test_a_server_with_the_certificate_of_another_host_is_not_spoken_to(certificates, connected):
    with tls_server(certificates, 'elsewhere') as server:
        said = refusal(connected(server.grpc_endpoint, options(certificates)))
    assert 'not made out to the host of backend.grpc_endpoint' in said


def test_plain_speech_to_a_tls_server_names_the_missing_key(tls, connected):
    assert 'set backend.security.root_certificates' in refusal(connected(tls.grpc_endpoint))


def test_tls_to_a_plain_server_says_that_it_is_one(triton_server, certificates, connected):
    said = refusal(connected(triton_server.grpc_endpoint, options(certificates)))
    assert 'the server speaks without TLS' in said


@pytest.fixture
def gate(triton_server, certificates):
    with TokenGate(triton_server.grpc_endpoint, certificates, TOKEN) as gate:
        yield gate.endpoint


@pytest.mark.parametrize('is_in_a_file', [True, False])
def test_a_token_opens_the_gate_and_is_nowhere_to_be_read(gate, certificates, connected, tmp_path,
                                                          monkeypatch, caplog, is_in_a_file):
    security = options(certificates)
    if is_in_a_file:
        (tmp_path / 'token').write_text(f'{TOKEN}\n')
        security = replace(security, token_file=str(tmp_path / 'token'))
    else:
        monkeypatch.setenv('VIG_TEST_TOKEN', TOKEN)
        security = replace(security, token_variable='VIG_TEST_TOKEN')
    caplog.set_level(logging.DEBUG)
    assert answers(connected(gate, security))
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(load_credentials(security)) + repr(security)


def test_without_the_right_token_the_refusal_says_what_is_missing(gate, certificates, connected,
                                                                  tmp_path):
    assert 'wants a token' in refusal(connected(gate, options(certificates)))
    (tmp_path / 'token').write_text('of-yesterday')
    said = refusal(connected(gate, replace(options(certificates),
                                           token_file=str(tmp_path / 'token'))))
    assert 'refuses the token' in said and 'of-yesterday' not in said


@pytest.mark.parametrize('content, says', [
    (b'', 'holds no token'), (b' \n', 'holds no token'), (b'Bearer abc', 'without "Bearer"'),
    (b'abc\ndef', 'one word'), (b'x' * 20_000, 'at most 16 KiB'), (b'\xff\x00', 'printable')])
def test_what_is_no_token_is_refused_without_being_shown(tmp_path, content, says):
    (tmp_path / 'token').write_bytes(content)
    with pytest.raises(UnusableCredentials) as caught:
        load_credentials(SecurityOptions(token_file=str(tmp_path / 'token')))
    assert says in str(caught.value) and 'abc' not in str(caught.value)


def test_files_that_are_no_certificates_or_do_not_belong_together_are_named(certificates):
    with pytest.raises(UnusableCredentials, match='root_certificates: .*server.key .*PEM'):
        load_credentials(SecurityOptions(root_certificates=str(certificates / 'server.key')))
    mixed = replace(options(certificates, client='client'),
                    private_key=str(certificates / 'server.key'))
    with pytest.raises(UnusableCredentials, match='certificate_chain: .*belong together'):
        load_credentials(mixed)
    openssl(certificates, 'rsa', '-in', 'client.key', '-aes256', '-passout', 'pass:secret',
            '-out', 'locked.key')
    with pytest.raises(UnusableCredentials, match='passphrase'):
        load_credentials(replace(mixed, private_key=str(certificates / 'locked.key')))
