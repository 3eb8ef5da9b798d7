"""What a Triton server says of itself and its models: for manifests and checks."""

from collections.abc import Callable, Mapping
from typing import Any

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from vig_governor.backend.base import BackendUnavailable
from vig_governor.backend.calls import ModelCounts
from vig_governor.backend.verdict import judge
from vig_governor.endpoints import nobody_listens


class TritonFacts:
    """
    The questions of a client that is connected to ``endpoint``.

    :ivar addresses: ``host:port`` of every service that inferences may go to.
    """

    endpoint: str
    addresses: tuple[str, ...]
    _client: triton.InferenceServerClient

    def facts(self, *, timeout_s: float = 1.0) -> tuple[str, str]:
        """
        Give the server's name and version.

        :raises BackendUnavailable: it does not answer.
        """
        facts = self._question('metadata', lambda: self._client.get_server_metadata(
            client_timeout=timeout_s))
        return str(facts.name), str(facts.version)

    def model_config(self, backend_model: str, *, timeout_s: float = 1.0) -> Mapping[str, Any]:
        """
        Give a model's effective configuration in its JSON form.

        :raises BackendUnavailable: the server does not know the model or does not answer.
        """
        answer = self._question(
            f'configuration of model {backend_model!r}', lambda: self._client.get_model_config(
                backend_model, as_json=True, client_timeout=timeout_s))
        config: Mapping[str, Any] = answer['config']
        return config

    def statistics(self, backend_model: str, *, timeout_s: float = 1.0) -> ModelCounts:
        """
        Read the completion counters of a model, over all its versions.

        :raises BackendUnavailable: the server does not know the model or does not answer.
        """
        answer = self._question(
            f'statistics of model {backend_model!r}', lambda: (
                self._client.get_inference_statistics(backend_model, client_timeout=timeout_s)))
        entries = answer.model_stats
        return ModelCounts(sum(entry.inference_stats.success.count for entry in entries),
                           sum(entry.inference_stats.fail.count for entry in entries),
                           sum(entry.execution_count for entry in entries))

    def nobody_listens(self, *, timeout_s: float = 1.0) -> bool:
        """Whether all addresses refuse connections: no process serves them now."""
        return all(nobody_listens(each, timeout_s=timeout_s) for each in self.addresses)

    def region_names(self, *, timeout_s: float = 1.0) -> tuple[str, ...]:
        """
        Name all shared-memory regions that the server knows, whoever registered them.

        :raises BackendUnavailable: it does not answer, or has no shared memory.
        """
        answer = self._question('shared-memory regions', lambda: (
            self._client.get_system_shared_memory_status(client_timeout=timeout_s)))
        return tuple(answer.regions)

    def _question(self, what: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except InferenceServerException as error:
            why = judge(error.status(), error.message() or '').text
        except ValueError as error:
            why = str(error)
        raise BackendUnavailable(f'no {what} from {self.endpoint}: {why}')

    def _why_not_ready(self, backend_model: str, timeout_s: float) -> str:
        index = self._client.get_model_repository_index(client_timeout=timeout_s).models
        entries = [entry for entry in index if entry.name == backend_model]
        if not entries:
            known = ', '.join(sorted({entry.name for entry in index})) or 'none'
            return (f'the server at {self.endpoint} has no model {backend_model!r}; its models '
                    f'are {known}')
        facts = '; '.join(f'{entry.state.lower()} {entry.reason}'.strip() for entry in entries)
        return (f'model {backend_model!r} at {self.endpoint} is not ready'
                f'{f" ({facts})" if facts else ""}: load it, or see the server\'s log')
