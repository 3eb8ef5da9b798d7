"""What the shell needs of a loaded file: options of the backend, and the whole of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType

from vig_core.model import System

from vig_governor.config.schema import VigFile
from vig_governor.config.streams import StreamBinding
from vig_governor.token_estimate import estimate_tokens


@dataclass(frozen=True, slots=True)
class SecurityOptions:
    """
    How to speak to the server. Paths are absolute or relative to the working directory.

    :ivar root_certificates: PEM; any of the three PEM files switches TLS on.
    :ivar token_file: file that holds one bearer token.
    :ivar token_variable: environment variable that holds it instead.
    """

    root_certificates: str | None = None
    private_key: str | None = None
    certificate_chain: str | None = None
    token_file: str | None = None
    token_variable: str | None = None

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.root_certificates is not None or self.certificate_chain is not None

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token."""
        return self.token_file is not None or self.token_variable is not None


@dataclass(frozen=True, slots=True)
class BackendOptions:
    """
    The block ``backend`` as far as it is not the scheduler's.

    :ivar endpoint: ``host:port`` of the gRPC service.
    :ivar http_endpoint: ``host:port`` of the same server's HTTP service, for inferences; empty
        sends them over gRPC too.
    :ivar inference_timeout_ns: when an inference counts as hanging.
    :ivar drain_deadline_ns: how long running work may finish at deactivation.
    :ivar model_repository: the server's model folder, if it is visible here.
    :ivar is_strict: whether models and streams that no contract names are refused.
    :ivar shm_key_prefix: with its leading slash.
    :ivar shm_owner_uids: whose regions may be referred to; empty: the node's own user's.
    """

    endpoint: str = '127.0.0.1:8001'
    http_endpoint: str = ''
    inference_timeout_ns: int = 5_000_000_000
    drain_deadline_ns: int = 20_000_000_000
    model_repository: str | None = None
    is_strict: bool = False
    security: SecurityOptions = SecurityOptions()
    shm_key_prefix: str = '/vig_'
    max_shm_regions: int = 256
    shm_owner_uids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GenerativeOptions:
    """
    How the shell speaks to a generative model; see ``schema_model.Cooperative``.

    :ivar tokens_tensor: ``None`` where the model does not count what it writes.
    :ivar end_tensor: ``None`` where it does not tell the end of its text.
    :ivar template: contains ``{prompt}`` once.
    :ivar max_prompt_bytes: of the prompt alone, in UTF-8.
    """

    prompt_tensor: str
    max_tokens_tensor: str
    text_tensor: str
    tokens_tensor: str | None = None
    end_tensor: str | None = None
    template: str = '{prompt}'
    max_prompt_bytes: int = 16_384

    @property
    def bytes_around(self) -> int:
        """Bytes that the template puts around a prompt."""
        return len(self._around)

    @property
    def tokens_around(self) -> int:
        """The same in tokens, estimated."""
        return estimate_tokens(self._around)

    @property
    def _around(self) -> bytes:
        return self.template.replace('{prompt}', '').encode()


@dataclass(frozen=True)
class Config:
    """
    One valid file, resolved.

    :ivar notices: what the operator should know and that stops nothing, one sentence each.
    :ivar unprofiled: ``(model, variant)`` without a profile. They carry a placeholder as slow as
        their deadline in ``system``; nothing may plan with it, see ``require_profiles``.
    :ivar file: the file classes, with everything that only tools read (manifests, cooperative).
    :ivar generative: of each generative model.
    :ivar job_streams: one for each of them, for the jobs of ``~/generate``.
    :ivar source: the path as it was given.
    :ivar digest: SHA-256 of the file's bytes, hexadecimal.
    """

    system: System
    streams: tuple[StreamBinding, ...]
    backend: BackendOptions
    notices: tuple[str, ...]
    unprofiled: tuple[tuple[str, str], ...]
    file: VigFile
    source: str
    digest: str
    generative: Mapping[str, GenerativeOptions] = field(
        default_factory=lambda: MappingProxyType({}))
    job_streams: tuple[StreamBinding, ...] = ()

    @cached_property
    def backend_models(self) -> tuple[str, ...]:
        """Every model of the server that a variant names, once, in declared order."""
        return tuple(dict.fromkeys(variant.backend_model
                                   for model in self.system.models.values()
                                   for variant in model.variants))
