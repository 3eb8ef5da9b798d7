"""The governor's vig.yaml for a point: the scenario's contracts, the profiles of this machine."""

import json
from typing import Any

from benchmark.live.workloads import Point

from vig_core.model import Model
from vig_core.sim.engine import SimStream
from vig_core.units import NS_PER_MS, NS_PER_US

from vig_governor.triton_server import TritonServer


def topic_of(point: Point, stream: SimStream) -> str:
    """Where the camera of a stream publishes."""
    return f'/live/{point.scenario.name.replace("-", "_")}/{stream.name}'


def render(point: Point, server: TritonServer, *, lead_ns: int | None) -> str:
    """
    Write the file as JSON, which is YAML too.

    :param lead_ns: how long before the expected end of an execution the next is sent; ``None``
        for after it.
    """
    system = point.scenario.system
    return json.dumps({
        'version': 1,
        'backend': {'type': 'triton', 'grpc_endpoint': server.grpc_endpoint,
                    'http_endpoint': server.http_endpoint, 'slots': system.slots,
                    **({} if lead_ns is None else {
                        'pipelining_depth': 1, 'pipelining_lead_ms': lead_ns / NS_PER_MS}),
                    'safety_margin_percent': system.margin_percent,
                    'inference_timeout_ms': 5000},
        'models': {name: _model(model) for name, model in system.models.items()},
        'streams': {stream.name: {
            'topic': topic_of(point, stream), 'type': 'sensor_msgs/msg/Image',
            'model': stream.model,
            'input': {'tensor': 'IMAGE', 'encoder': 'image', 'layout': 'HWC',
                      'dtype': 'UINT8'}} for stream in point.streams}}, indent=1) + '\n'


def _model(model: Model) -> dict[str, Any]:
    contract = model.contract
    times = {'deadline_ms': contract.deadline_ns, 'max_age_ms': contract.max_age_ns,
             'period_ms': contract.period_ns}
    written: dict[str, Any] = {key: value / NS_PER_MS for key, value in times.items()
                               if value is not None}
    if model.is_guarded:
        written['extension'] = {'version': 1,
                                'release_jitter_ms': contract.release_jitter_ns / NS_PER_MS}
    variant = model.variants[0]
    return {'class': model.criticality.name.lower(),
            'queue': {'policy': model.policy.value, 'capacity': model.capacity,
                      'overflow': model.overflow.value},
            'contract': written,
            'variants': [{'id': variant.variant_id, 'backend_model': variant.backend_model,
                          'quality': {'value': variant.quality, 'source': 'user_declared'},
                          'profile': {'p50_us': variant.profile.p50_ns // NS_PER_US,
                                      'p99_us': variant.profile.p99_ns // NS_PER_US}}]}
