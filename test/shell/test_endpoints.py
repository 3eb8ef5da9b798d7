"""Whether anybody listens at an address."""

import socket

import pytest
from vig_governor.backend.triton import TritonBackend
from vig_governor.endpoints import nobody_listens


@pytest.fixture
def listener():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        yield listener


def address(listener):
    return f'127.0.0.1:{listener.getsockname()[1]}'


def test_an_address_refuses_only_while_its_listener_is_gone(listener):
    assert not nobody_listens(address(listener), timeout_s=1.0)
    there = address(listener)
    listener.close()
    assert nobody_listens(there, timeout_s=1.0)


@pytest.mark.parametrize('endpoint', ['unix:/run/triton', 'localhost', 'no-such-host.invalid:1'])
def test_an_address_that_cannot_be_asked_refuses_nothing(endpoint):
    assert not nobody_listens(endpoint, timeout_s=1.0)


def test_both_services_of_a_server_must_refuse(listener):
    with socket.create_server(('127.0.0.1', 0)) as other:
        gone = address(other)
    for grpc, http, are_gone in ((gone, address(listener), False), (gone, gone, True),
                                 (address(listener), gone, False), (gone, '', True)):
        backend = TritonBackend(grpc, http_endpoint=http)
        assert backend.nobody_listens() == are_gone
        backend.close()
