"""
The file classes of vig.yaml. What they say is what ``vig schema`` prints.

Keys are those of the published configuration format; the block ``streams`` and the keys
``drain_deadline_s``, ``input.color`` and ``input.dtype`` are ours.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from vig_governor.config.schema_base import (
    Block, Datatype, Ms, MsOrZero, Name, Unsupported, UsOrZero,
)
from vig_governor.config.schema_model import ModelBlock

MAX_BLOCKS = 256
"""Models, and streams: each costs threads, topics and memory on a robot."""

_TRANSPORT = {'max_concurrent_streams': 256, 'concurrency_per_connection': 64,
              'request_timeout_ms': 600_000, 'keepalive_interval_ms': 30_000,
              'keepalive_timeout_ms': 10_000}
"""Limits of the gateway's own endpoint in the published format."""


class Interference(Block):
    """Measured time that one running model adds to another."""

    victim: str = Field(description='the model that is slowed down')
    co_tenant: str = Field(description='the model that runs beside it')
    added_us: UsOrZero = Field(description='added runtime in whole microseconds')


class Security(Block):
    """How the governor speaks to the server."""

    root_certificates: str | None = Field(
        default=None, description='PEM file that the server is checked against; switches TLS on')
    private_key: str | None = Field(
        default=None, description='PEM file of the own key; needs certificate_chain')
    certificate_chain: str | None = Field(
        default=None, description='PEM file of the own certificate; needs private_key')
    token_file: str | None = Field(
        default=None, description='file with one bearer token for the server')
    token_variable: str | None = Field(
        default=None, pattern=r'^[A-Za-z_][A-Za-z0-9_]{0,127}$',
        description='environment variable with the token, instead of token_file')
    shm_key_prefix: str = Field(
        default='/vig_', pattern=r'^/[A-Za-z0-9_.\-]{1,63}$',
        description='every shared-memory key starts with it: a slash, then letters, digits or '
                    '_ . -; default /vig_')
    max_shm_regions: int = Field(
        default=256, ge=1, le=4096, description='regions registered at once, those of producers '
                                                'included; default 256')
    shm_owner_uids: list[Annotated[int, Field(ge=0, le=4_294_967_294)]] | None = Field(
        default=None, min_length=1, max_length=64,
        description='user ids whose shared memory a TensorReference may name; default the user '
                    'that runs the node')
    tls_cert: Annotated[Any, Unsupported('clients reach us through ROS')] = None
    tls_key: Annotated[Any, Unsupported('clients reach us through ROS')] = None
    client_ca: Annotated[Any, Unsupported('clients reach us through ROS')] = None
    admin_token_file: Annotated[Any, Unsupported('clients reach us through ROS')] = None
    transport: Annotated[Any, Unsupported('clients reach us through ROS', _TRANSPORT)] = None


class Backend(Block):
    """The inference server and what it can run at once."""

    type: Literal['triton'] = Field(default='triton', description='only triton exists')
    grpc_endpoint: str = Field(
        default='127.0.0.1:8001', description='host:port of the gRPC service; default '
                                              '127.0.0.1:8001')
    http_endpoint: str | None = Field(
        default=None, description="host:port of the same server's HTTP service: inferences of "
                                  'models that answer once go there, for less processor time; '
                                  'without it they go over gRPC like everything else')
    slots: int = Field(
        le=1024, description='requests that the server really runs at once, at least 1: too many '
                             'and a second, invisible queue forms behind the governor; mandatory')
    pipelining_depth: int = Field(
        default=0, ge=0, le=16, description='extra credits for each slot; default 0')
    pipelining_lead_ms: Annotated[float, Field(ge=0, le=10_000)] | None = Field(
        default=None, description='time of an execution that is spent under way, to the server '
                                  'and back: an extra credit is used when what its slot has taken '
                                  'ends within it, and the plan does not count it as taking the '
                                  'slot; without it an extra credit is used at any time')
    learn_occupancy: bool = Field(
        default=False, description='learn from requests that waited at the server how long each '
                                   'model keeps the slot, and plan slots with it; needs '
                                   'pipelining, see adr/0022 for where it helps; default false')
    no_corun: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        default_factory=list, description='pairs of models that never run together')
    interference: list[Interference] = Field(
        default_factory=list, description='what running beside each other costs')
    safety_margin_percent: int = Field(
        default=110, le=1000, description='plans are this share of the measured p99, at least '
                                          '100; default 110')
    inference_timeout_ms: Ms = Field(
        default=5000, description='when a server that does not answer counts as hanging; not a '
                                  'deadline; default 5000')
    drain_deadline_s: Annotated[float, Field(gt=0, le=3600)] = Field(
        default=20, description='how long running work may finish at shutdown; default 20')
    model_repository: str | None = Field(
        default=None, description='model folder of the server, if visible here; shows swapped '
                                  'weights')
    trust: Literal['open', 'strict'] = Field(
        default='open', description='strict refuses a server with ready models that no contract '
                                    'names; default open')
    max_inflight_mib: int = Field(
        default=512, ge=1, le=1_048_576, description='payload waiting and running, MiB; '
                                                     'default 512')
    miss_aware_policy: bool = Field(
        default=False, description='whether an exhausted miss budget goes first in its class')
    protect_supply: bool = Field(
        default=False, description='whether the look-ahead also guards the supply; the node does '
                                   'not support true yet')
    security: Security | None = Field(default=None, description='towards the server')
    preemptible_lanes: Annotated[Any, Unsupported('interruption by the backend', 0)] = None
    actuation: Annotated[Any, Unsupported('setting clocks of the device')] = None
    hints: Annotated[Any, Unsupported('contracts changed by applications')] = None
    prediction: Annotated[Any, Unsupported('predictions by state', 'shadow')] = None
    margin_learning: Annotated[Any, Unsupported('plans below the profile')] = None
    domains: Annotated[Any, Unsupported('several devices')] = None


class InputBlock(Block):
    """How one message becomes the input tensor."""

    tensor: str = Field(min_length=1, description='the name of an input of the model')
    encoder: str = Field(min_length=1, description='image, array, pointcloud, scan, text, raw, '
                                                   'reference or the name of an installed encoder')
    size: Annotated[list[Annotated[int, Field(ge=1, le=16384)]],
                    Field(min_length=2, max_length=2)] | None = Field(
        default=None, description='[width, height] in pixels; omitted keeps that of the frame')
    layout: Literal['NHWC', 'NCHW', 'HWC', 'CHW'] = Field(
        default='NHWC', description='the order of the axes; default NHWC')
    dtype: Datatype = Field(default='FP32', description='the element type; default FP32')
    color: Literal['RGB', 'BGR', 'GRAY'] = Field(
        default='RGB', description='the channels that the model wants; default RGB')
    scale: float = Field(
        default=1.0, description='pixels are multiplied by it before mean and std; default 1')
    mean: list[float] | None = Field(
        default=None, description='subtracted, one per channel or one for all; default 0')
    std: list[float] | None = Field(
        default=None, description='divided by, as many as mean and none of them 0; default 1')
    letterbox: bool = Field(
        default=False, description='whether the aspect ratio is kept and the rest padded')


class StreamBlock(Block):
    """One ROS topic bound to one logical model."""

    topic: str = Field(description='the topic that is read; relative names resolve in the '
                                   'namespace of the node')
    type: str = Field(description='package/msg/Type of the topic')
    model: str = Field(description='the name of a model of this file')
    output: str | None = Field(
        default=None, description='where <output>/result and <output>/status are published; '
                                  'default <topic>/vig. Two models on one topic need it')
    key: Name | None = Field(
        default=None, description='what latest_per_key keeps apart; default the stream name')
    time_source: Literal['stamp', 'arrival'] = Field(
        default='stamp', description='where the capture time comes from; default stamp')
    bad_stamp: Literal['refuse', 'arrival'] = Field(
        default='refuse', description='what a zero or impossible stamp does; default refuse')
    max_clock_skew_ms: MsOrZero = Field(
        default=100, description='how far a stamp may lie in the future; default 100')
    input: InputBlock | None = Field(
        default=None, description='how a message becomes a tensor; mandatory, except for prompts '
                                  'of a generative model')
    transport: Literal['auto', 'shm', 'copy'] = Field(
        default='auto', description='shm shares memory with a server on this host; default auto')
    shm_slots: int = Field(
        default=4, ge=1, le=64, description='input buffers of the stream; default 4')
    deliver_obsolete: bool = Field(
        default=False, description='whether results older than max_age_ms are published, flagged')


class VigFile(Block):
    """The whole file."""

    version: Literal[1] = Field(description='the version of the format; only 1 exists')
    backend: Backend = Field(description='the inference server')
    models: dict[Name, ModelBlock] = Field(
        min_length=1, max_length=MAX_BLOCKS, description='the logical models by name')
    streams: dict[Name, StreamBlock] | None = Field(
        default=None, max_length=MAX_BLOCKS,
        description='how ROS reaches the models; a file without it can be profiled and checked')

    @field_validator('streams')
    @classmethod
    def _none_is_empty(cls, value: dict[str, Any] | None) -> dict[str, Any]:
        return value or {}


def json_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of the file, for editors."""
    return {'$schema': 'https://json-schema.org/draft/2020-12/schema',
            **VigFile.model_json_schema(by_alias=True), 'title': 'vig.yaml'}
