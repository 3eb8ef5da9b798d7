"""The demo's vig.yaml: the plan's contracts with the profiles measured a moment ago."""

from collections.abc import Mapping
from datetime import datetime, timezone
import json

from vig_core.units import NS_PER_US

from vig_governor.demo.language_repository import TENSORS
from vig_governor.demo.plan import DemoPlan, DemoStream, DemoVariant, DemoWriter, GUARDED
from vig_governor.demo.writer_costs import PLANNED_PERCENT, WriterCosts
from vig_governor.measure.runtime import RuntimeSamples

INPUT = 'IMAGE'


def render(plan: DemoPlan, profiles: Mapping[str, RuntimeSamples], endpoint: str,
           costs: WriterCosts | None = None) -> str:
    """
    Write the configuration of the governor.

    :param profiles: runs by backend model; every model of a camera of the plan is there.
    :param endpoint: gRPC endpoint of the server, ``host:port``.
    :param costs: of the plan's language model, if it has one.
    """
    moment = datetime.now(timezone.utc).strftime('%Y-%m-%d %H:%M:%S')
    lines = [f'# Written by `vig demo` at {moment} UTC, with profiles measured on this machine.',
             'version: 1',
             'backend:',
             '  type: triton',
             f'  grpc_endpoint: "{endpoint}"',
             '  slots: 1',
             '  pipelining_depth: 0',
             f'  safety_margin_percent: {PLANNED_PERCENT}',
             '  inference_timeout_ms: 5000',
             'models:']
    for stream in plan.streams:
        lines += _model(stream, profiles)
    if plan.writer is not None and costs is not None:
        lines += _writer(plan.writer, costs)
    lines.append('streams:')
    for stream in plan.streams:
        lines += _stream(stream)
    if plan.writer is not None:
        lines += _questions(plan.writer)
    return '\n'.join(lines) + '\n'


def _stream(stream: DemoStream) -> list[str]:
    lines = [f'  {stream.name}:',
             f'    topic: {stream.governed_topic}',
             f'    model: {stream.name}']
    if stream.lends:
        # The results come where they come without the governor.
        return [*lines,
                '    type: vig/msg/TensorReference',
                f'    output: {stream.topic}/vig',
                f'    input: {{tensor: {INPUT}, encoder: reference}}']
    return [*lines,
            '    type: sensor_msgs/msg/Image',
            f'    input: {{tensor: {INPUT}, encoder: image, layout: HWC, dtype: UINT8}}']


def _model(stream: DemoStream, profiles: Mapping[str, RuntimeSamples]) -> list[str]:
    # A best-effort stream promises nothing: a period would only declare a wish.
    is_guarded = stream.criticality in GUARDED
    lines = [f'  {stream.name}:',
             f'    class: {stream.criticality}',
             '    queue: {policy: latest, capacity: 1, overflow: reject_new}',
             '    contract:',
             f'      deadline_ms: {stream.deadline_ms}',
             f'      max_age_ms: {stream.max_age_ms}',
             f'      period_ms: {stream.period_ms}']
    if is_guarded:
        lines += ['      extension:',
                  '        version: 1',
                  f'        consumer_period_ms: {stream.period_ms}',
                  f'        release_jitter_ms: {stream.envelope_ms}']
    lines.append('    variants:')
    for variant in stream.variants:
        lines += _variant(variant, profiles[variant.backend_model])
    return lines


def _variant(variant: DemoVariant, samples: RuntimeSamples) -> list[str]:
    p50, p95, p99 = (samples.quantile_ns(percent) // NS_PER_US for percent in (50, 95, 99))
    return [f'      - id: {variant.variant_id}',
            f'        backend_model: {variant.backend_model}',
            f'        quality: {{value: {variant.quality}, source: user_declared}}',
            f'        profile: {{p50_us: {p50}, p95_us: {p95}, p99_us: {p99},'
            f' samples: {samples.count}}}']


def _writer(writer: DemoWriter, costs: WriterCosts) -> list[str]:
    return [f'  {writer.name}:',
            '    class: best_effort',
            '    queue: {policy: fifo, capacity: 4, overflow: backpressure_client}',
            '    contract:',
            f'      deadline_ms: {writer.deadline_ms}',
            f'      max_age_ms: {writer.max_age_ms}',
            '    cooperative:',
            f'      tokens_per_second: {costs.tokens_per_second:.3f}',
            f'      base_cost_us: {costs.base_cost_us}',
            f'      prefill_per_token_us: {costs.prefill_per_token_us:.1f}',
            f'      new_prompt_per_token_us: {costs.new_prompt_per_token_us:.1f}',
            '      min_tokens: 1',
            f'      max_total_tokens: {writer.max_tokens}',
            *(f'      {key}: {tensor}' for key, tensor in TENSORS.items()),
            f'      prompt_template: {json.dumps(writer.template)}',
            '    variants:',
            '      - id: only',
            f'        backend_model: {writer.backend_model}',
            '        quality: {value: 1.0, source: user_declared}',
            f'        profile: {{p50_us: {costs.quantum_p50_us}, p99_us: {costs.quantum_p99_us}}}']


def _questions(writer: DemoWriter) -> list[str]:
    return [f'  {writer.name}:',
            f'    topic: {writer.topic}',
            '    type: std_msgs/msg/String',
            f'    model: {writer.name}',
            '    time_source: arrival']
