"""Generative jobs in the simulator: the published trade between a language model and a camera."""

from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.request import Reason
from vig_core.scheduler import Scheduler
from vig_core.sim.baselines import tuned_server
from vig_core.sim.engine import SimStream, simulate
from vig_core.sim.report import judge
from vig_core.sim.workload import Continuous, Periodic
from vig_core.units import ms, NS_PER_S, us

SECONDS = 5
CAMERA = Model(
    'camera', Criticality.PROTECTED,
    Contract(deadline_ns=ms(33), max_age_ns=ms(66), period_ns=ms(33)),
    (Variant('main', 'camera', RuntimeProfile(us(14_916), us(17_470))),))
COST = Cooperative(us(6_200), round(NS_PER_S / 257), 48, prefill_per_token_ns=us(3))


def writer(**changes):
    """Build the published language model."""
    cost = Cooperative(**{name: getattr(COST, name) for name in COST.__dataclass_fields__}
                       | changes)
    return Model('llm', Criticality.BEST_EFFORT, Contract(deadline_ns=30 * NS_PER_S),
                 (Variant('main', 'llm', RuntimeProfile(us(193_000), us(200_000))),),
                 QueuePolicy.FIFO, cooperative=cost)


def play(llm, policy=Scheduler, slots=1):
    """Play both; returns coverage of the camera in percent and the whole texts."""
    system = System(models={'camera': CAMERA, 'llm': llm}, slots=slots)
    streams = [SimStream('camera', 'camera', Periodic(ms(33))),
               SimStream('llm', 'llm', Continuous(), is_closed_loop=True, prompt_tokens=32)]
    run = simulate(policy(system), system, streams, seed=3, duration_ns=SECONDS * NS_PER_S)
    camera = next(one for one in judge(run, system, streams).streams if one.stream == 'camera')
    texts = [end for end in run.ends if end.stream == 'llm' and end.reason is Reason.COMPLETED
             and end.ended_at_ns <= SECONDS * NS_PER_S]
    return 100 - camera.instant_permille / 10, texts, run


def test_splitting_gives_texts_where_one_piece_gives_none_and_the_camera_stays_fresh():
    covered, texts, _ = play(writer())
    covered_whole, texts_whole, _ = play(writer(is_split=False))
    assert len(texts) >= 4 and not texts_whole
    assert covered >= covered_whole - 7
    assert all(end.tokens == 48 and end.quanta > 1 for end in texts)


def test_without_a_governor_whole_texts_cost_the_camera_its_freshness():
    covered, texts, _ = play(writer(), policy=lambda system: tuned_server(system, 1))
    assert texts and covered < 50


def test_a_gap_that_holds_no_quantum_gives_no_text_and_harms_nobody():
    covered, texts, _ = play(writer(base_cost_ns=ms(18)))
    assert not texts and covered == play(writer(is_split=False))[0]


def test_on_two_slots_the_rest_is_written_in_one_piece():
    covered, texts, _ = play(writer(), slots=2)
    assert covered == 100 and texts and all(end.quanta == 1 for end in texts)


def test_the_same_seed_gives_the_same_texts():
    assert play(writer())[2].digest == play(writer())[2].digest


def test_a_new_prompt_costs_the_first_quantum_alone_and_the_camera_nothing():
    """Read once a prompt of 32 takes 3.2 ms; each quantum that reads all is soon too long."""
    once, texts, _ = play(writer(prefill_per_token_ns=0, new_prompt_per_token_ns=us(100)))
    each, none, _ = play(writer(prefill_per_token_ns=us(100)))
    assert once == each == play(writer(is_split=False))[0]
    assert len(texts) >= 4 and not none


def test_a_text_in_one_piece_takes_its_prompt_and_its_tokens():
    _, texts, _ = play(writer(prefill_per_token_ns=0, new_prompt_per_token_ns=ms(1)), slots=2)
    took_ms = sorted(end.backend_ns / 1e6 for end in texts)
    assert 215 < took_ms[len(took_ms) // 2] < 235, '6.2 + 32 + 48 / 257 s'


def test_a_prompt_longer_than_any_gap_gives_no_text_and_harms_nobody():
    covered, texts, run = play(writer(new_prompt_per_token_ns=us(600)))
    assert not texts and covered == play(writer(is_split=False))[0]
