"""
The server of all arms, which really runs as many models at once as ``slots`` says.

One global resource of the rate limiter, ``slots`` of it, is the accelerator; a request that finds
none waits at the server, the camera's before the writer's. With one slot both model processes
share the last core. With two the writer has the first one for itself; on a machine with two cores
everything else then shares the other one with the camera's model. (Left free to run on both, the
node waits behind the writer, and frames are late however the slots are used.)
"""

from collections.abc import Iterator
from contextlib import contextmanager
import os
from pathlib import Path

from vig_governor.demo.assets import AssetStore
from vig_governor.demo.repository import write_repository
from vig_governor.demo.server import pin_models, split_cores
from vig_governor.triton_server import TritonServer

CAMERA, WRITER = 'face_full', 'smollm2_q4'
PRIORITIES = {CAMERA: 1, WRITER: 4096}
"""In the rate limiter, the smaller first; as far apart as the classes are in benchmark/live."""

CONFIG = """\
version: 1
backend:
  grpc_endpoint: "{endpoint}"
  slots: {slots}
  drain_deadline_s: 2
  interference: {interference}
models:
  detector:
    class: protected
    queue: {{policy: latest, capacity: 1}}
    contract: {{period_ms: {period_ms:g}, deadline_ms: {deadline_ms:g}, max_age_ms: {age_ms:g}}}
    variants:
      - id: only
        backend_model: {camera}
        instances: 1
        profile: {{p50_us: {camera_p50_us}, p99_us: {camera_p99_us}}}
  writer:
    class: best_effort
    queue: {{policy: fifo, capacity: 4}}
    contract: {{deadline_ms: 30000, max_age_ms: 60000}}
    cooperative:
      tokens_per_second: {tokens_per_second:.3f}
      base_cost_us: {base_cost_us}
      prefill_per_token_us: {prefill_per_token_us:.1f}
      new_prompt_per_token_us: {new_prompt_per_token_us:.1f}
      min_tokens: 1
      max_total_tokens: {max_tokens}
      tokens_tensor: TOKENS
      end_tensor: END
      split: {split}
    variants:
      - id: only
        backend_model: {writer}
        instances: 1
        profile: {{p50_us: {quantum_p50_us}, p99_us: {quantum_p99_us}}}
streams:
  camera: {{topic: /camera, type: sensor_msgs/msg/Image, model: detector,
           input: {{tensor: IMAGE, encoder: image, layout: HWC, dtype: UINT8}}}}
  questions: {{topic: /ask, type: std_msgs/msg/String, model: writer, time_source: arrival}}
"""


@contextmanager
def serve(folder: Path, store: AssetStore, slots: int) -> Iterator[TritonServer]:
    """
    Run both models; while they run, this thread and what it starts keep off the writer's core.

    :raises VigError: the server is not installed or did not start, or a file is missing.
    """
    environment = write_repository(folder / 'model_repository', store, PRIORITIES, PRIORITIES)
    before = os.sched_getaffinity(0)
    for_models, for_others = split_cores()
    for_writer = for_models if slots == 1 else {min(before)}
    os.sched_setaffinity(0, for_others if slots == 1 else before - for_writer or before)
    try:
        with TritonServer(folder / 'model_repository', environment=environment,
                          log=folder / f'triton_{slots}.log', rate_limiter=True,
                          arguments=[f'--rate-limit-resource=core:{slots}']) as server:
            pin_models(server.pid, for_models, CAMERA)
            pin_models(server.pid, for_writer, WRITER)
            yield server
    finally:
        os.sched_setaffinity(0, before)
