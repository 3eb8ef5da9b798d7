"""
Prometheus metrics, ``/healthz`` and ``/readyz`` over HTTP, where a port is asked for.

Counters and gauges are read from the scheduler's snapshot when they are asked for; only the
histograms cost something for each frame. ``/healthz`` says that the process decides (restart it
if not); ``/readyz`` that a frame which arrives now can run. Knows nothing of ROS.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
import socket
import threading
from typing import Any
from wsgiref.simple_server import make_server, WSGIRequestHandler

from prometheus_client import CollectorRegistry, Histogram, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from vig_core.actions import Defer, Dispatch, OverloadState, ReportOverload, Terminate
from vig_core.contract import Criticality
from vig_core.errors import VigError
from vig_core.request import Reason
from vig_core.snapshot import StreamSnapshot, SystemSnapshot
from vig_core.units import NS_PER_S

from vig_governor.backend.base import OutputTensor
from vig_governor.ports import Payload, Sink
from vig_governor.timing import Timings

_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.033, 0.05, 0.066, 0.1, 0.2, 0.5, 1.0, 5.0)
_DECISION_SECONDS = (2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2)


class CannotServe(VigError):
    """The port cannot be opened; says which and why."""


@dataclass(frozen=True, slots=True)
class Health:
    """
    What ``/healthz`` and ``/readyz`` say.

    :ivar is_alive: decisions are being made, or none are asked for.
    :ivar is_ready: a frame that arrives now can run.
    :ivar detail: why not, in one sentence.
    """

    is_alive: bool
    is_ready: bool
    detail: str = ''


class Metrics:
    """
    All metrics of one process.

    :param snapshot: gives the scheduler's counters, or ``None`` while nothing is scheduled;
        called on the thread of whoever asks.
    :param reconciled: tells how many executions the server's counters have proven over.
    """

    def __init__(self, snapshot: Callable[[], SystemSnapshot | None], *,
                 reconciled: Callable[[], int] = int) -> None:
        self.registry = CollectorRegistry()
        self._snapshot = snapshot
        self._variants: Counter[tuple[str, str, str]] = Counter()
        self._reconciled = reconciled
        self._busy_ns = 0

        def histogram(name: str, text: str, labels: tuple[str, ...],
                      buckets: tuple[float, ...] = _SECONDS) -> Histogram:
            return Histogram(name, text, labels, buckets=buckets, registry=self.registry)

        self._decision = histogram('vig_decision_seconds', 'One call of the scheduler', (),
                                   _DECISION_SECONDS)
        self._queue_wait = histogram(
            'vig_queue_wait_seconds', 'Arrival to dispatch, or to the end of what never ran',
            ('model', 'stream'))
        self._backend = histogram('vig_backend_runtime_seconds', 'Dispatch to answer',
                                  ('model', 'variant'))
        self._age = histogram('vig_information_age_seconds',
                              'Capture to publication of delivered results', ('model', 'stream'))
        self.registry.register(_OnDemand(self))

    def begin(self) -> None:
        """Start anew: a scheduler's counters begin at zero."""
        self._variants.clear()
        self._busy_ns = 0

    def timings(self) -> Timings:
        """Give a place for the durations of decisions that also fills the histogram."""
        return _ObservedTimings(self._decision)

    def watch(self, sink: Sink) -> Sink:
        """Give a sink that counts and passes everything on."""
        return _WatchedSink(self, sink)

    def note_end(self, action: Terminate) -> None:
        """Count one ended request; on the actor's thread."""
        self._queue_wait.labels(action.model, action.stream).observe(
            action.queue_wait_ns / NS_PER_S)
        if action.backend_ns is not None:
            self._backend.labels(action.model, action.variant_id or '').observe(
                action.backend_ns / NS_PER_S)
            self._busy_ns += action.backend_ns
        if action.reason is Reason.COMPLETED:
            self._age.labels(action.model, action.stream).observe(action.age_ns / NS_PER_S)

    def note_decision(self, action: Dispatch | Defer | ReportOverload,
                      payload: Payload | None) -> None:
        """Count one decision; on the actor's thread."""
        if isinstance(action, Dispatch):
            stream = payload.stream if payload is not None else ''
            self._variants[action.model, stream, action.variant_id] += 1

    def collect(self) -> Iterator[Metric]:
        """Read the counters and gauges of this moment."""
        snapshot = self._snapshot()
        chosen = list(self._variants.items())
        sent: Counter[tuple[str, str]] = Counter()
        for (model, stream, _), count in chosen:
            sent[model, stream] += count
        if snapshot is not None:
            yield from _of_streams(snapshot.streams, sent)
            yield from self._of_system(snapshot)
        variants = CounterMetricFamily('vig_variant_selected', 'Dispatches by variant',
                                       labels=['model', 'stream', 'variant'])
        for labels, count in chosen:
            variants.add_metric(labels, count)
        yield variants

    def _of_system(self, snapshot: SystemSnapshot) -> Iterator[Metric]:
        def counter(name: str, text: str, value: float) -> Metric:
            return CounterMetricFamily(name, text, value=value)

        def gauge(name: str, text: str, value: float) -> Metric:
            return GaugeMetricFamily(name, text, value=value)

        yield counter('vig_stale_compute_seconds', 'Backend time for results that came too late',
                      snapshot.stale_compute_ns / NS_PER_S)
        yield gauge('vig_stale_compute_ratio', 'Share of the backend time for such results',
                    min(snapshot.stale_compute_ns / self._busy_ns, 1.0) if self._busy_ns else 0.0)
        yield counter('vig_deliberate_idle_seconds', 'Slot time left idle for expected frames',
                      snapshot.deliberate_idle_ns / NS_PER_S)
        yield counter('vig_execution_reconciled',
                      'Executions that a counter of the server has proven over',
                      self._reconciled())
        yield gauge('vig_slots', 'Execution slots', snapshot.slots_total)
        yield gauge('vig_busy_slots', 'Slots that compute', snapshot.slots_busy)
        yield gauge('vig_quarantined_slots', 'Slots held until an end is proven',
                    snapshot.slots_quarantined)
        yield gauge('vig_overload_state', '0 normal to 4 protected_only',
                    list(OverloadState).index(snapshot.overload))


class _OnDemand(Collector):
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics.collect()

    def describe(self) -> Iterable[Metric]:
        """Say nothing in advance: nothing is asked when it is registered."""
        return ()


class _ObservedTimings(Timings):
    def __init__(self, histogram: Histogram) -> None:
        super().__init__()
        self._histogram = histogram

    def add(self, duration_ns: int) -> None:
        super().add(duration_ns)
        self._histogram.observe(duration_ns / NS_PER_S)


class _WatchedSink:
    def __init__(self, metrics: Metrics, sink: Sink) -> None:
        self._metrics = metrics
        self._sink = sink

    def on_terminated(self, action: Terminate, payload: Payload,
                      outputs: tuple[OutputTensor, ...]) -> None:
        self._sink.on_terminated(action, payload, outputs)
        self._metrics.note_end(action)

    def on_written(self, request_id: int, payload: Payload) -> None:
        self._sink.on_written(request_id, payload)

    def on_decided(self, action: Dispatch | Defer | ReportOverload,
                   payload: Payload | None) -> None:
        self._sink.on_decided(action, payload)
        self._metrics.note_decision(action, payload)


_GENERATIVE: tuple[tuple[str, str, Callable[[StreamSnapshot], float | None]], ...] = (
    ('prefill', 'reading prompts and what was written before',
     lambda one: one.prefill_ns / NS_PER_S if one.quanta else None),
    ('decode', 'writing', lambda one: one.decode_ns / NS_PER_S if one.quanta else None),
    ('fixed', 'the fixed cost of each request',
     lambda one: one.fixed_ns / NS_PER_S if one.quanta else None))


def _of_streams(streams: Iterable[StreamSnapshot],
                sent: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    def counter(name: str, text: str) -> CounterMetricFamily:
        return CounterMetricFamily(name, text, labels=['model', 'stream'])

    def gauge(name: str, text: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, text, labels=['model', 'stream'])

    families: list[tuple[Any, Callable[[StreamSnapshot], float | None]]] = [
        (counter('vig_requests_received', 'Requests accepted'), lambda one: one.received),
        (counter('vig_requests_dispatched', 'Sent to the server; each quantum counts'),
         lambda one: sent[one.model, one.stream]),
        (counter('vig_deadline_misses', 'Delivered after the deadline'),
         lambda one: one.deadline_misses),
        (counter('vig_deferred_for_protected', 'Held back for the arrival of a higher class'),
         lambda one: one.deferred),
        (counter('vig_waited_for_instance', 'Waits for an instance while a slot was free'),
         lambda one: one.awaited),
        *((counter(f'vig_generative_{name}_seconds', f'Time of quanta spent on {what}'), read)
          for name, what, read in _GENERATIVE),
        (counter('vig_uncovered_cycles', 'Consumer cycles without a fresh result'),
         lambda one: one.judged_cycles - one.covered_cycles),
        (gauge('vig_fresh_coverage_ratio', 'Share of consumer cycles with a fresh result'),
         lambda one: one.coverage if one.judged_cycles else None),
        (gauge('vig_longest_gap_seconds', 'Longest time without a fresh result'),
         lambda one: one.longest_gap_ns / NS_PER_S if one.judged_cycles else None),
        (gauge('vig_weakly_hard_misses', 'Misses in the window of the miss budget'),
         lambda one: one.weakly_hard_misses if one.weakly_hard_left is not None else None),
        (gauge('vig_weakly_hard_misses_left', 'Coming misses in a row that the budget bears'),
         lambda one: one.weakly_hard_left),
        (gauge('vig_weakly_hard_observed', '1 once the window of the miss budget is full'),
         lambda one: one.weakly_hard_observed if one.weakly_hard_left is not None else None),
        (gauge('vig_weakly_hard_violated', '1 while the miss budget is broken'),
         lambda one: one.weakly_hard_violated if one.weakly_hard_left is not None else None),
        (counter('vig_best_effort_starved', 'Whole observation windows that best-effort '
                 'work waited while none of it started'),
         lambda one: one.starved if one.criticality is Criticality.BEST_EFFORT else None),
        (gauge('vig_background_progress_ratio', 'Share of the last best-effort requests that '
               'were completed'),
         lambda one: one.background_progress if one.background_ended else None),
        (gauge('vig_background_progress_required_ratio', 'Share that a contract asks for'),
         lambda one: one.background_required_percent / 100
         if one.background_required_percent else None),
        (gauge('vig_safety_margin_percent', 'Margin of the plan; 100 adds nothing'),
         lambda one: one.margin_percent)]
    families += [(counter(f'vig_requests_{reason.value}', f'Requests that ended {reason.value}'),
                  lambda one, reason=reason: one.counts[reason]) for reason in Reason]
    for stream in streams:
        for family, read in families:
            value = read(stream)
            if value is not None:
                family.add_metric([stream.model, stream.stream], float(value))
    for family, _ in families:
        yield family


class MetricsServer:
    """
    Serves one address until it is closed.

    :raises CannotServe: the port is taken, or the address is none of this host.
    """

    def __init__(self, metrics: Metrics, health: Callable[[], Health], *, address: str,
                 port: int) -> None:
        self._health = health
        self._metrics_app: Any = make_wsgi_app(metrics.registry)
        try:
            self._server = make_server(address, port, self._answer, _server_class(address),
                                       handler_class=_Quiet)
        except OSError as error:
            raise CannotServe(f'metrics_port {port} on {address}: {error.strerror or error}; '
                              'choose another port, or 0 for none') from None
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, name='vig-metrics',
                                        daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread and free the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=2.0)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        path = environ.get('PATH_INFO', '')
        if environ.get('REQUEST_METHOD') not in ('GET', 'HEAD'):
            return _say(start_response, '405 Method Not Allowed', 'only GET')
        if path == '/metrics':
            answer: Iterable[bytes] = self._metrics_app(environ, start_response)
            return answer
        if path not in ('/healthz', '/readyz'):
            return _say(start_response, '404 Not Found', 'there are /metrics, /healthz, /readyz')
        health = self._health()
        is_good = health.is_alive if path == '/healthz' else health.is_ready
        return _say(start_response, '200 OK' if is_good else '503 Service Unavailable',
                    'ok' if is_good else health.detail)


class _Quiet(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, format: str, *args: Any) -> None:
        """Log no request: a scraper asks every few seconds."""


def _server_class(address: str) -> type[ThreadingWSGIServer]:
    if ':' not in address:
        return ThreadingWSGIServer
    return type('V6Server', (ThreadingWSGIServer,), {'address_family': socket.AF_INET6})


def _say(start_response: Any, status: str, text: str) -> list[bytes]:
    start_response(status, [('Content-Type', 'text/plain; charset=utf-8')])
    return [f'{text}\n'.encode()]
