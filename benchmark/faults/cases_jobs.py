"""Faults while texts are generated, for jobs of ~/generate and for prompts on a topic."""

import signal

from benchmark.faults.jobs import Jobs
from benchmark.faults.registry import fault
from benchmark.faults.staging import DRAIN_S, until
from benchmark.faults.world import World


def works_again(jobs: Jobs) -> None:
    """See that both ways lead to a text again."""
    until(lambda: jobs.ends_of_one() == {'completed': 2}, 15.0, 'no text comes any more')


def server_killed(world: World, jobs: Jobs) -> None:
    """Kill the server under a text and start it again."""
    jobs.be_busy()
    world.server.kill()
    ends = jobs.ends()
    assert ends['backend_failed'] >= 1 and ends['completed'] < 4, ends
    jobs.start_server()
    world.mended()
    works_again(jobs)


def server_frozen(world: World, jobs: Jobs) -> None:
    """Let the server stand still under a text until its time is over."""
    world.wait_until_warm()
    world.server.pause()
    try:
        jobs.be_busy()
        until(lambda: not world.is_ready, 6.0, 'the node still says that it is ready')
    finally:
        world.server.resume()
    world.mended()
    ends = jobs.ends()
    assert ends['backend_timeout'] >= 1, ends
    works_again(jobs)


@fault('the server is killed while a text is generated, and started again', starts_itself=True,
       recovery_s=8.0, is_fast=True)
def jobs_server_killed(world: World) -> None:
    with Jobs(world) as jobs:
        server_killed(world, jobs)


@fault('the server is killed while a model streams a text, and started again',
       starts_itself=True, recovery_s=8.0)
def jobs_streamed_server_killed(world: World) -> None:
    with Jobs(world, is_streamed=True) as jobs:
        server_killed(world, jobs)


@fault('the server stands still while a model streams a text, then goes on', starts_itself=True,
       recovery_s=8.0)
def jobs_streamed_server_frozen(world: World) -> None:
    with Jobs(world, is_streamed=True) as jobs:
        server_frozen(world, jobs)


@fault('the server is told to end while a text is generated, and started again',
       starts_itself=True, recovery_s=8.0)
def jobs_server_restarted(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        world.server.stop()
        jobs.start_server()
        world.mended()
        jobs.ends()
        works_again(jobs)


@fault('the server stands still while texts are asked for, then goes on', starts_itself=True,
       recovery_s=8.0)
def jobs_server_frozen(world: World) -> None:
    with Jobs(world) as jobs:
        server_frozen(world, jobs)


@fault('the generative model is unloaded and loaded again', starts_itself=True, recovery_s=8.0)
def jobs_model_unloaded(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        world.server.unload_model('writer')
        jobs.ends()
        jobs.ask()
        assert jobs.ends() == {'backend_failed': 2}
        world.server.load_model('writer')
        world.mended()
        works_again(jobs)


@fault('deactivated while a text is generated, activated again', starts_itself=True,
       recovery_s=8.0, is_fast=True)
def jobs_deactivated(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        assert world.change('deactivate')
        ends = jobs.ends()
        assert ends.keys() <= {'completed', 'cancelled'}, ends
        world.mended()
        assert world.change('activate')
        jobs.wait_until_listening()
        works_again(jobs)


@fault('deactivated, cleaned up, configured and activated while a text is generated',
       starts_itself=True, recovery_s=12.0)
def jobs_whole_round(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        for transition in ('deactivate', 'cleanup', 'configure', 'activate'):
            assert world.change(transition), transition
        world.mended()
        ends = jobs.ends()
        assert ends.keys() <= {'completed', 'cancelled'}, ends
        jobs.wait_until_listening()
        works_again(jobs)


@fault('shut down by the lifecycle while a text is generated, then SIGTERM: code 0',
       starts_itself=True, recovery_s=25.0)
def jobs_shutdown_transition(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        assert world.change('shutdown_active')
        ends = jobs.ends()
        assert ends.keys() <= {'completed', 'cancelled'}, ends
        world.signal_node(signal.SIGTERM)
        assert world.wait_for_end(5.0) == 0, world.log[-2000:]
        world.mended()


@fault('SIGTERM while a text is generated: code 0', starts_itself=True, recovery_s=25.0,
       is_fast=True)
def jobs_sigterm(world: World) -> None:
    with Jobs(world) as jobs:
        jobs.be_busy()
        world.signal_node(signal.SIGTERM)
        assert world.wait_for_end(DRAIN_S + 5.0) == 0, world.log[-2000:]
        ends = jobs.ends()
        assert ends.keys() <= {'completed', 'cancelled'}, ends
        world.mended()
