"""Faults of the way to the server: reset, refused, silent, slow, garbled."""

import socket
import threading

from benchmark.faults.proxy import Proxy
from benchmark.faults.registry import fault
from benchmark.faults.staging import until
from benchmark.faults.world import World


@fault('the connection is reset while a frame runs; the server lives on and its counter proves '
       'the end', starts_itself=True, is_fast=True)
def connection_reset_in_mid_inference(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        world.start_node(endpoint=proxy.endpoint)
        world.recover(5.0)
        running = world.publish('slow')
        until(lambda: world.dispatched('slow') >= 1, 3.0, 'nothing was sent')
        proxy.reset()
        assert world.ends(running) == {'backend_failed': 1}
        world.mended()
        world.recover(5.0)
        until(lambda: world.value('backend', 'reconciled') == '1', 3.0,
              'the counter has proven nothing')
        world.end_node()


@fault('nobody listens at the address for two seconds', starts_itself=True)
def connection_refused_for_a_while(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        world.start_node(endpoint=proxy.endpoint)
        world.recover(5.0)
        proxy.close()
        frames = []
        for _ in range(10):
            frames += world.publish('quick')
            world.ends(frames[-1:])
        assert world.ends(frames)['completed'] == 0
        until(lambda: not world.is_ready, 3.0, 'the node still says that it is ready')
        world.finding('does not answer')
        proxy.open()
        world.mended()
        world.recover(5.0)
        world.end_node()


@fault('answers stay on their way for two seconds, then arrive', starts_itself=True)
def answers_are_held_up(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        world.start_node(endpoint=proxy.endpoint)
        world.recover(5.0)
        proxy.holds = True
        frames = world.publish('quick', 2)
        assert world.ends(frames[:1]) == {'backend_timeout': 1}
        until(lambda: not world.is_ready, 3.0, 'the node still says that it is ready')
        proxy.holds = False
        world.mended()
        world.ends(frames)
        world.recover(5.0)
        world.end_node()


@fault('an answer is lost for ever and the connection stands; a later reset frees the slot',
       starts_itself=True, recovery_s=6.0)
def answer_lost_then_connection_reset(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        world.start_node(endpoint=proxy.endpoint)
        world.recover(5.0)
        proxy.holds = True
        assert world.run_one('quick') == 'backend_timeout'
        until(lambda: not world.is_ready, 3.0, 'the node still says that it is ready')
        proxy.reset()
        proxy.holds = False
        world.mended()
        world.recover(6.0)
        world.end_node()


@fault('every piece takes 60 ms longer on its way', starts_itself=True)
def slow_network(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        world.start_node(endpoint=proxy.endpoint)
        world.recover(5.0)
        proxy.delay_s = 0.06
        frames = world.publish('quick', 3)
        assert world.ends(frames) == {'completed': 3}
        proxy.delay_s = 0.0
        world.mended()
        world.recover(5.0)
        world.end_node()


@fault('whoever listens at the address accepts and says nothing; then the server is there',
       starts_itself=True, is_fake=True, recovery_s=12.0)
def mute_listener_at_configure(world: World) -> None:
    with Proxy(world.endpoint) as proxy:
        proxy.holds = True
        world.start_node(endpoint=proxy.endpoint, waits=False)
        world.finding('no Triton server answered', 12.0)
        proxy.reset()
        proxy.holds = False
        world.mended()
        world.wait_until_listening()
        world.recover(12.0)
        world.end_node()


@fault('whoever listens at the address speaks another language', starts_itself=True,
       is_fake=True, recovery_s=12.0)
def garbage_at_configure(world: World) -> None:
    with socket.create_server(('127.0.0.1', 0)) as listener:
        port = listener.getsockname()[1]
        is_over = threading.Event()
        speaker = threading.Thread(target=_speak, args=(listener, is_over))
        speaker.start()
        try:
            world.start_node(endpoint=f'127.0.0.1:{port}', waits=False)
            world.finding('no Triton server answered', 12.0)
        finally:
            is_over.set()
            speaker.join()
    world.end_node()
    world.mended()
    world.start_node()


def _speak(listener: socket.socket, is_over: threading.Event) -> None:
    listener.settimeout(0.1)
    while not is_over.is_set():
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        with client:
            client.sendall(b'SSH-2.0-OpenSSH_9.2\r\n' * 20)
