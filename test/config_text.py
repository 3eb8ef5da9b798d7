"""A complete vig.yaml, and the tools to break one thing in it and read what is said."""

from vig_governor.config import ConfigError, load_config

COMPLETE = """\
version: 1
backend:
  type: triton
  grpc_endpoint: "127.0.0.1:8001"
  slots: 1
  pipelining_depth: 0
  no_corun: [[detector, summariser]]
  interference: [{victim: detector, co_tenant: summariser, added_us: 900}]
  safety_margin_percent: 110
  inference_timeout_ms: 5000
  drain_deadline_s: 20
  model_repository: /models
  trust: strict
  max_inflight_mib: 512
  miss_aware_policy: false
  protect_supply: false
  security: {}
models:
  detector:
    class: protected
    queue: {policy: latest, capacity: 1, overflow: reject_new}
    contract:
      period_ms: 33
      deadline_ms: 33
      max_age_ms: 66
      min_quality: 0.9
      variant_dwell_ms: 200
      extension:
        version: 1
        consumer_period_ms: 33
        phase_ms: 0
        release_jitter_ms: 2
        delivery_boundary: consumer
        delivery_semantics: latest_state
        require_new_sample_each_cycle: false
        observation_window: 300
        miss_budget: {max_misses: 2, window_cycles: 100, max_consecutive: 1}
        minimum_background_progress_pct: 5
        approved_variants: [large]
        max_input_kib: 3072
        max_occupancy_pct: 92
        evidence_required: qualified_slo
        contract_version: 4
    stateful: false
    io_signature:
      inputs: [{name: image, datatype: FP32, dims: [3, 300, 300]}]
      outputs: [{name: boxes, datatype: FP32, dims: [-1, 6]}]
    variants:
      - id: large
        backend_model: detector_large
        quality: {value: 1.0, source: measured, measured_on: "coco-val2017"}
        profile:
          p50_us: 14916
          p95_us: 17081
          p99_us: 17470
          samples: 200
          fingerprint: "00112233445566aa"
          manifest:
            revision: 2
            recorded_at: "2026-09-09T18:42:11Z"
            artifact: {digest: "sha256:00", source: directory, bytes: 118293504, versions: ["1"]}
            runtime: {server: triton, server_version: "2.52.0", platform: tensorrt_plan,
                      library_version: "TensorRT 10.3.0"}
            device: {name: "NVIDIA RTX A2000", compute_capability: "8.6", memory_mib: 12288,
                     driver: "560.35.03"}
            resources: {partition: exclusive, instances: 1, rate_limiter: "off"}
            measurement: {dataset: zeros, batch_size: 1, concurrency: 1, warmup: 20,
                          independent_runs: 3}
            validity: {max_concurrent_models: 4, max_occupancy_pct: 92, max_input_kib: 3072}
  summariser:
    class: best_effort
    queue: {policy: fifo, capacity: 4, overflow: backpressure_client}
    contract: {deadline_ms: 800, max_age_ms: 1500}
    decoupled: true
    backend_endpoint: "127.0.0.1:9701"
    cooperative: {tokens_per_second: 258, base_cost_us: 6277, prefill_per_token_us: 1,
                  min_tokens: 8, max_total_tokens: 48, max_overhead_permille: 300}
    variants: [{id: main, backend_model: llm, quality: {value: 1.0, source: user_declared}}]
streams:
  front:
    topic: /camera/front/image_raw
    type: sensor_msgs/msg/Image
    model: detector
    key: front
    time_source: stamp
    bad_stamp: refuse
    max_clock_skew_ms: 100
    input: {tensor: image, encoder: image, size: [300, 300], layout: NCHW, scale: 0.003921569,
            mean: [0, 0, 0], std: [1, 1, 1], letterbox: true}
    transport: auto
    shm_slots: 4
    deliver_obsolete: false
"""
"""Every key of the published format and of the block ``streams``."""

SIMPLE = """\
version: 1
backend:
  slots: 1
models:
  detector:
    class: protected
    queue: {policy: latest, capacity: 1}
    contract:
      period_ms: 33
      deadline_ms: 40
      max_age_ms: 80
    variants:
      - id: large
        backend_model: detector_large
        quality: {value: 1.0, source: user_declared}
        profile: {p50_us: 20000, p99_us: 25000}
      - id: small
        backend_model: detector_small
        quality: {value: 0.7, source: user_declared}
        profile: {p50_us: 8000, p99_us: 10000}
streams:
  front:
    topic: /front/image
    type: sensor_msgs/msg/Image
    model: detector
    input: {tensor: image, encoder: image}
"""
"""What a node plans with, without a notice."""


SECOND_CAMERA = """\
  rear:
    topic: /rear/image
    type: sensor_msgs/msg/Image
    model: detector
    input: {tensor: image, encoder: image}
"""
"""Another stream to the model of the simple file."""

EXTENSION = """\
      extension:
        version: 1
        consumer_period_ms: 50
        miss_budget: {max_misses: 2, window_cycles: 100, max_consecutive: 1}
"""
"""The optional addition to a contract."""


def line_of(text, word, nth=1):
    """Give the number of the line that contains a word for the nth time."""
    hits = [number for number, line in enumerate(text.splitlines(), 1) if word in line]
    return hits[nth - 1]


def changed(old, new, text=SIMPLE):
    """Give the text with the first occurrence of one part exchanged; it must be there."""
    assert old in text
    return text.replace(old, new, 1)


def load(folder, text, **options):
    """Write the text to a file and load it."""
    path = folder / 'vig.yaml'
    path.write_text(text, encoding='utf-8')
    return load_config(path, **options)


def problems_of(folder, text, **options):
    """Load a text that must be refused, check that the message is complete, give the problems."""
    try:
        load(folder, text, **options)
    except ConfigError as error:
        for problem in error.problems:
            assert str(problem) in str(error)
            assert problem.file == str(folder / 'vig.yaml')
        return error.problems
    raise AssertionError('the file was accepted')


def assert_refused(folder, text, *, line, key, value='', says=(), **options):
    """Check the one problem of a text: where it is, and that its sentence has these parts."""
    problems = problems_of(folder, text, **options)
    assert len(problems) == 1, '\n'.join(map(str, problems))
    assert_problem(problems[0], line=line, key=key, value=value, says=says)


def assert_problem(problem, *, line, key, value='', says=()):
    """Check file, line, key, value and remedy of one problem."""
    assert (problem.line, problem.key, problem.value) == (line, key, value), str(problem)
    place = f'{problem.file}:{line}: {key}' + (f' = {value}' if value else '')
    assert str(problem).startswith(place)
    for part in says:
        assert part in problem.reason, f'{part!r} is not in: {problem}'


def one_notice(folder, text, *parts, line, **options):
    """Check that exactly one notice has these parts, and that it names file and line."""
    notices = load(folder, text, **options).notices
    found = [one for one in notices if all(part in one for part in parts)]
    assert len(found) == 1, notices
    assert found[0].startswith(f'{folder / "vig.yaml"}:{line}: ')
