"""The file classes of ``models``: contract, queue, variants, profile and its manifest."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from vig_governor.config.schema_base import (
    BackendName, Block, Datatype, Ms, MsOrZero, Name, Percent, Unsupported, Us, UsOrZero,
)


class Queue(Block):
    """What happens to requests that wait."""

    policy: Literal['latest', 'latest_per_key', 'fifo', 'never_drop'] = Field(
        description='latest keeps the newest capture of the model, latest_per_key the newest '
                    'of each key, fifo and never_drop keep the order')
    capacity: int = Field(ge=1, le=4096, description='the number of requests that may wait, or '
                          'of keys for latest_per_key; mandatory, 1 for latest')
    overflow: Literal['reject_new', 'reject_oldest_non_protected', 'backpressure_client'] = Field(
        default='reject_new', description='what a full queue does; default reject_new')


class MissBudgetBlock(Block):
    """At most max_misses in window_cycles, at most max_consecutive in a row."""

    max_misses: int = Field(ge=0, description='M, smaller than window_cycles')
    window_cycles: int = Field(ge=1, le=1024, description='K, up to 1024 cycles')
    max_consecutive: int = Field(ge=0, description='L, at most max_misses')


class Extension(Block):
    """The versioned addition to the contract."""

    version: Literal[1] = Field(description='the version of this block; only 1 exists')
    consumer_period_ms: Ms | None = Field(
        default=None, description='when the consumer samples; without it the cycle is period_ms')
    phase_ms: MsOrZero = Field(default=0, description='the instant of the first cycle; default 0')
    release_jitter_ms: MsOrZero = Field(
        default=0, description='the envelope J of the capture jitter; default 0')
    delivery_boundary: Literal['governor', 'consumer'] = Field(
        default='governor', description='where a result counts as delivered; consumer is not '
                                        'enforced')
    delivery_semantics: Literal['latest_state', 'every_event', 'stateful_sequence'] = Field(
        default='latest_state', description='latest_state: a cycle needs a result of at most '
                                            'max_age; every_event: no frame may be lost; '
                                            'stateful_sequence: nor overtaken')
    require_new_sample_each_cycle: bool = Field(
        default=False, description='whether a cycle needs a result that no earlier cycle used')
    observation_window: int = Field(
        default=300, ge=1, le=100_000,
        description='how far back is looked: so many results for ages (at most 1000), requests '
                    'for the progress of best-effort work, cycles for its starvation')
    miss_budget: MissBudgetBlock | None = Field(
        default=None, description='how many uncovered cycles are acceptable; needs '
                                  'consumer_period_ms')
    minimum_background_progress_pct: Annotated[int, Field(ge=0, le=100)] = Field(
        default=0, description='the percent of its requests that each best-effort stream, this '
                               'one or those below this one, should see completed; observed, '
                               'not enforced')
    approved_variants: list[str] | None = Field(
        default=None, description='the only variants that may run; omit it to approve all')
    max_input_kib: int | None = Field(
        default=None, gt=0, description='the largest input that the contract holds for; compared '
                                        'by vig doctor, not enforced')
    max_occupancy_pct: Percent | None = Field(
        default=None, description='the planned share of the slots up to which the contract '
                                  'holds; compared by vig doctor, not enforced')
    evidence_required: Literal['observed', 'qualified_slo', 'proven'] = Field(
        default='observed', description='how strong a promise is needed, never what was seen; '
                                        'proven is refused')
    contract_version: int = Field(
        default=0, ge=0, description='raise it when the contract changes: the monitor then '
                                     'starts a new window')

    @field_validator('evidence_required')
    @classmethod
    def _nothing_proves(cls, value: str) -> str:
        if value == 'proven':
            raise ValueError('nothing here proves a bound; use observed or qualified_slo')
        return value


class ContractBlock(Block):
    """What the consumer needs; never measured."""

    period_ms: Ms | None = Field(
        default=None, description='the expected distance of arrivals; without it nothing is '
                                  'kept free for the next one')
    deadline_ms: Ms = Field(
        description='milliseconds from capture until the result is wanted; mandatory; steers '
                    'order and variant')
    max_age_ms: Annotated[float, Field(ge=0, le=3_600_000)] | None = Field(
        default=None, description='milliseconds from capture after which a result is worthless; '
                                  'omitted means never worthless')
    min_quality: float = Field(
        default=0.0, ge=0, le=1, description='variants below it never run; default 0')
    variant_dwell_ms: MsOrZero = Field(
        default=100, description='how long a reserve must last before a better variant is '
                                 'tried; default 100')
    extension: Extension | None = Field(default=None, description='the optional addition')
    min_runtime: Annotated[Any, Unsupported('a guaranteed share for background work')] = None
    objective: Annotated[Any, Unsupported('a coverage objective within a class')] = None

    @field_validator('max_age_ms')
    @classmethod
    def _zero_is_ambiguous(cls, value: float | None) -> float | None:
        if value == 0:
            raise ValueError('0 would make every result worthless; omit max_age_ms to say that '
                             'results are never worthless, or give milliseconds above 0')
        return value


class Quality(Block):
    """How good a variant is, and who says so."""

    value: float = Field(ge=0, le=1, description='0 to 1, comparable within the model')
    source: Literal['measured', 'user_declared', 'unknown'] = Field(
        default='unknown', description='where the figure comes from; unknown (the default) '
                                       'switches automatic selection off')
    measured_on: str | None = Field(default=None, description='the data set of a measured figure')


class Artifact(Block):
    """The model files that were measured."""

    digest: str | None = Field(default=None, description='sha256:... over the version folders')
    source: str | None = Field(default=None, description='how the digest was obtained')
    bytes: int | None = Field(default=None, ge=0, description='total size of the files')
    versions: list[str] = Field(default_factory=list, description='the version folders')


class Runtime(Block):
    """The server that was measured."""

    server: str | None = Field(default=None, description='for example triton')
    server_version: str | None = Field(default=None, description='for example 2.51.0')
    platform: str | None = Field(default=None, description='backend or platform of the model')
    library_version: str | None = Field(default=None, description='of the inference library')


class Device(Block):
    """The processor that was measured."""

    name: str | None = Field(default=None, description='of the GPU, or of the CPU without one')
    compute_capability: str | None = Field(default=None, description='for example "8.6"')
    memory_mib: int | None = Field(default=None, ge=0, description='memory of the device')
    driver: str | None = Field(default=None, description='version of the driver')


class Resources(Block):
    """How the device was shared while it was measured."""

    partition: str | None = Field(default=None, description='exclusive, mig, mps ...')
    instances: int | None = Field(default=None, ge=0, description='instances of the model')
    rate_limiter: str | None = Field(default=None, description='of the server; quote "off"')


class Measurement(Block):
    """The conditions of the measurement."""

    dataset: str | None = Field(default=None, description='what was fed')
    batch_size: int | None = Field(default=None, ge=0, description='requests in one batch')
    concurrency: int | None = Field(default=None, ge=0, description='requests at once')
    warmup: int | None = Field(default=None, ge=0, description='discarded runs')
    independent_runs: int | None = Field(default=None, ge=0, description='runs of the median')
    release: str | None = Field(default=None, description='back_to_back or grid')
    shapes: dict[str, list[int]] | None = Field(default=None, description='per input tensor')


class Validity(Block):
    """The operating point that the numbers claim to hold for."""

    max_concurrent_models: int | None = Field(default=None, ge=0, description='models at once')
    max_occupancy_pct: Percent | None = Field(default=None, description='of the slots')
    max_input_kib: int | None = Field(default=None, ge=0, description='largest input')


class Manifest(Block):
    """The environment of a profile, field by field; what is missing counts as unknown."""

    revision: int = Field(ge=1, description='of the manifest format')
    recorded_at: str | None = Field(default=None, description='UTC, ISO 8601, in quotes')
    artifact: Artifact | None = Field(default=None, description='the model files')
    runtime: Runtime | None = Field(default=None, description='the server')
    device: Device | None = Field(default=None, description='the processor')
    resources: Resources | None = Field(default=None, description='how it was shared')
    measurement: Measurement | None = Field(default=None, description='the conditions')
    validity: Validity | None = Field(default=None, description='what the numbers hold for')


class Profile(Block):
    """Measured runtimes of the variant alone."""

    p50_us: Us = Field(description='median runtime in whole microseconds')
    p95_us: Us | None = Field(default=None, description='95th percentile, microseconds')
    p99_us: Us = Field(description='99th percentile, microseconds; the plan is made with it')
    samples: int | None = Field(default=None, ge=1, description='measured runs')
    fingerprint: str | None = Field(default=None, description='legacy, in quotes')
    manifest: Manifest | None = Field(default=None, description='the measured environment')


class VariantBlock(Block):
    """One physical model of the server."""

    id: Name = Field(description='the name of the variant within its model')
    backend_model: BackendName = Field(description='the name of the model on the server')
    instances: int | None = Field(
        default=None, ge=1, le=1024,
        description='how many executions of this backend model the server runs at once (the '
                    'instance_group of its config.pbtxt); never more are sent to it; omitted: as '
                    'many as there are slots')
    quality: Quality = Field(default=Quality(value=1.0), description='default 1.0, unknown source')
    profile: Profile | None = Field(
        default=None, description='measured runtimes; the node plans with nothing else')


class TensorBlock(Block):
    """One tensor of the promised interface."""

    name: str = Field(min_length=1, description='as the server names it')
    datatype: Datatype = Field(description='KServe v2 name')
    dims: list[Annotated[int, Field(ge=-1)]] = Field(description='the shape; -1 is any size')


class IoSignature(Block):
    """The interface that every variant promises to meet, with the same meaning."""

    inputs: list[TensorBlock] = Field(min_length=1, description='the input tensors')
    outputs: list[TensorBlock] = Field(min_length=1, description='the output tensors')


class Cooperative(Block):
    """How a generative model may be cut into quanta."""

    tokens_per_second: float = Field(gt=0, description='measured rate')
    base_cost_us: UsOrZero = Field(description='measured fixed cost of one quantum')
    prefill_per_token_us: float = Field(
        default=0, ge=0, description='measured cost of each token of context; default 0')
    new_prompt_per_token_us: float | None = Field(
        default=None, ge=0, description='measured cost of each token of a text that the server '
                                        'has not just read or written; omitted: the same')
    min_tokens: int = Field(default=8, ge=1, description='smallest quantum; default 8')
    max_total_tokens: int = Field(ge=1, description='longest answer')
    max_overhead_permille: int | None = Field(
        default=None, ge=0, description='above it the job runs whole; omitted: no limit')
    split: bool = Field(
        default=True, description='false runs every job whole, under the same bound; default true')
    prompt_tensor: str = Field(
        default='PROMPT', min_length=1, description='the input that takes the text so far; '
                                                    'default PROMPT')
    max_tokens_tensor: str = Field(
        default='MAX_TOKENS', min_length=1, description='the input that takes the tokens to write '
                                                        'at most; default MAX_TOKENS')
    text_tensor: str = Field(
        default='TEXT', min_length=1, description='the output with what was written; default TEXT')
    tokens_tensor: str | None = Field(
        default=None, min_length=1, description='the output that counts what was written; '
                                                'omitted: as many as were asked for')
    end_tensor: str | None = Field(
        default=None, min_length=1, description='the output that is true at the end of the text; '
                                                'omitted: fewer tokens than were asked for')
    prompt_template: str = Field(
        default='{prompt}', description='what the model reads, with {prompt} in the place of the '
                                        'prompt; default the prompt alone')
    max_prompt_bytes: int = Field(
        default=16_384, ge=1, le=1_048_576, description='longest prompt; default 16384')

    @field_validator('prompt_template')
    @classmethod
    def _has_a_place(cls, value: str) -> str:
        if value.count('{prompt}') != 1:
            raise ValueError('must contain {prompt} once, where the prompt goes')
        return value


class ModelBlock(Block):
    """A logical model: what the robot asks for, whichever variant answers."""

    class_name: Literal['protected', 'high', 'normal', 'best_effort'] = Field(
        alias='class', description='who goes first, never traded against each other')
    queue: Queue = Field(description='what happens to requests that wait; mandatory')
    contract: ContractBlock = Field(description='what the consumer needs; mandatory')
    stateful: bool = Field(default=False, description='whether the order of requests matters')
    io_signature: IoSignature | None = Field(
        default=None, description='a promise that every variant must meet')
    decoupled: bool = Field(
        default=False, description='whether the model answers on the streaming endpoint only; '
                                   'true needs the block cooperative')
    backend_endpoint: str | None = Field(
        default=None, description='another server on the same device; the node does not support '
                                  'it yet')
    cooperative: Cooperative | None = Field(
        default=None, description='of a generative model: how its jobs are cut into quanta')
    variants: list[VariantBlock] = Field(
        min_length=1, description='at least one, in falling quality')
    preemptible: Annotated[Any, Unsupported('interruption by the backend')] = None
    domain: Annotated[Any, Unsupported('several devices', 'default')] = None
