"""
Draw the figures of docs/how-it-works.md: small situations, played by the scheduler itself.

Nothing is drawn that the scheduler did not decide. Each situation is a system, the arrivals and a
server in virtual time that takes exactly the median of the profile.
``python tools/draw_figures.py`` writes docs/images/how-*.png; the test of the documents plays the
same situations.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
import heapq
from pathlib import Path

from vig_core.actions import Dispatch
from vig_core.contract import Contract, Criticality, QueuePolicy
from vig_core.cooperative import Cooperative
from vig_core.events import BackendCompleted, Event, QuantumCompleted, RequestArrived, Woke
from vig_core.model import Model, RuntimeProfile, System, Variant
from vig_core.scheduler import Scheduler
from vig_core.units import ms

from vig_governor.history import History, history_of
from vig_governor.recorded import Recorded
from vig_governor.timeline_picture import draw

IMAGES = Path(__file__).resolve().parent.parent / 'docs' / 'images'


@dataclass(frozen=True)
class Situation:
    """
    What one figure shows.

    :ivar arrivals: per stream the instants in milliseconds; captured 3 ms before, jobs at once.
    :ivar end_ms: until when it is played.
    """

    system: System
    arrivals: Mapping[str, Sequence[float]]
    end_ms: float


def model(name: str, criticality: Criticality, runtimes: Sequence[tuple[str, float]], *,
          period: float | None = None, deadline: float, max_age: float | None = None,
          policy: QueuePolicy = QueuePolicy.LATEST) -> Model:
    """Make a model whose variants take what is given, in milliseconds, best first."""
    return Model(
        name=name, criticality=criticality, policy=policy,
        capacity=1 if policy is QueuePolicy.LATEST else 16,
        contract=Contract(deadline_ns=ms(deadline), period_ns=period and ms(period),
                          max_age_ns=max_age and ms(max_age)),
        variants=tuple(Variant(
            variant_id=variant, backend_model=f'{name}_{variant}', quality=1.0 - 0.1 * number,
            profile=RuntimeProfile(p50_ns=ms(runtime), p99_ns=ms(runtime)))
            for number, (variant, runtime) in enumerate(runtimes)))


def system(*models: Model) -> System:
    """Put models, with one stream each, on one slot; plans carry no margin."""
    return System(models={each.name: each for each in models},
                  streams={each.name: each.name for each in models}, margin_percent=100)


def every(period: float, end: float, begin: float = 3.0) -> list[float]:
    """List the instants of a camera in milliseconds."""
    return [begin + number * period for number in range(int((end - begin) / period) + 1)]


_DETECTOR = model('detector', Criticality.PROTECTED, [('main', 15)], period=33, deadline=33,
                  max_age=60)


def _queue_or_newest(policy: QueuePolicy) -> Situation:
    slow = model('camera', Criticality.NORMAL, [('main', 50)], period=33, deadline=600,
                 policy=policy)
    return Situation(system(slow), {'camera': every(33, 300)}, 330)


def _beside_a_job(job_class: Criticality) -> Situation:
    job = model('job', job_class, [('main', 24)], deadline=800, policy=QueuePolicy.FIFO)
    return Situation(system(_DETECTOR, job), {'detector': every(33, 240), 'job': [5, 63, 129]},
                     250)


def _variants() -> Situation:
    camera = model('camera', Criticality.PROTECTED, [('large', 28), ('small', 9)], period=50,
                   deadline=40, max_age=80)
    burst = model('burst', Criticality.PROTECTED, [('main', 26)], deadline=50,
                  policy=QueuePolicy.FIFO)
    return Situation(system(camera, burst), {
        'camera': every(50, 460), 'burst': every(50, 250, begin=143)}, 490)


def _stale() -> Situation:
    blocker = model('blocker', Criticality.HIGH, [('main', 70)], deadline=300,
                    policy=QueuePolicy.FIFO)
    camera = model('camera', Criticality.NORMAL, [('main', 20)], period=100, deadline=60,
                   max_age=60)
    return Situation(system(blocker, camera), {'blocker': [95], 'camera': [3, 103, 203]}, 260)


def _patience() -> Situation:
    camera = model('camera', Criticality.PROTECTED, [('main', 20)], period=33, deadline=66,
                   max_age=66)
    uneven = replace(camera.variants[0], profile=RuntimeProfile(p50_ns=ms(20), p99_ns=ms(80)))
    job = model('job', Criticality.PROTECTED, [('main', 68)], deadline=600,
                policy=QueuePolicy.FIFO)
    return Situation(system(replace(camera, variants=(uneven,)), job), {
        'camera': every(33, 190, begin=2), 'job': [24]}, 200)


def cut(is_split: bool) -> Situation:
    """Let a generative job meet a camera, in pieces or whole."""
    camera = model('camera', Criticality.PROTECTED, [('main', 12)], period=50, deadline=40,
                   max_age=75)
    text = replace(
        model('text', Criticality.BEST_EFFORT, [('main', 104)], deadline=2000,
              policy=QueuePolicy.FIFO),
        cooperative=Cooperative(base_cost_ns=ms(8), per_token_ns=ms(6), max_total_tokens=16,
                                min_tokens=2, is_split=is_split))
    return Situation(system(camera, text), {'camera': every(50, 340), 'text': [70]}, 350)


SITUATIONS: Mapping[str, Situation] = {
    'how-queue': _queue_or_newest(QueuePolicy.FIFO),
    'how-newest': _queue_or_newest(QueuePolicy.LATEST),
    'how-stale': _stale(),
    'how-unguarded': _beside_a_job(Criticality.PROTECTED),
    'how-idle': _beside_a_job(Criticality.BEST_EFFORT),
    'how-variants': _variants(),
    'how-patience': _patience(),
    'how-cut': cut(True),
}


def play(situation: Situation) -> History:
    """Let the scheduler decide and give what happened."""
    scheduler = Scheduler(situation.system)
    recorded = Recorded(path='', head={}, system=situation.system, origin_ns=0, begin_ns=0)
    runtimes = {variant.backend_model: variant.profile.p50_ns
                for each in situation.system.models.values() for variant in each.variants}
    ahead: list[tuple[int, int, Event]] = []
    arrivals = sorted((ms(at), stream) for stream, instants in situation.arrivals.items()
                      for at in instants)
    for number, (at_ns, stream) in enumerate(arrivals):
        is_frame = situation.system.models[stream].contract.period_ns is not None
        heapq.heappush(ahead, (at_ns, number, RequestArrived(
            number, stream, stream, '', at_ns - (ms(3) if is_frame else 0))))
    jobs = {each.name: each.cooperative for each in situation.system.models.values()
            if each.cooperative is not None}
    count = len(ahead)
    while True:
        wakeup_ns = scheduler.next_wakeup_ns()
        if wakeup_ns is not None and (not ahead or wakeup_ns < ahead[0][0]):
            now_ns, event = wakeup_ns, Woke()
        elif ahead:
            now_ns, _, event = heapq.heappop(ahead)
        else:
            break
        if now_ns > ms(situation.end_ms):
            break
        recorded.events.append((now_ns, event, ''))
        for action in scheduler.handle(event, now_ns=now_ns):
            if isinstance(action, Dispatch):
                count += 1
                job = jobs.get(action.model)
                answer: Event = BackendCompleted(action.request_id)
                took_ns = runtimes[action.backend_model]
                if job is not None:
                    answer = QuantumCompleted(action.request_id, action.tokens, False)
                    took_ns = job.cost_ns(0, action.tokens)
                heapq.heappush(ahead, (now_ns + took_ns, count, answer))
    recorded.events.append((ms(situation.end_ms), Woke(), ''))
    return history_of(recorded)


def main() -> None:
    """Draw every situation."""
    for name, situation in SITUATIONS.items():
        path = IMAGES / f'{name}.png'
        draw(play(situation), path)
        print(path.relative_to(IMAGES.parent.parent))


if __name__ == '__main__':
    main()
