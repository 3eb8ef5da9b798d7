"""What the governor plans a language model's quanta with, measured before anything else runs."""

from dataclasses import dataclass

from vig_core.units import NS_PER_MS, NS_PER_S, NS_PER_US

from vig_governor.backend.triton import TritonBackend
from vig_governor.demo.language_repository import OPTIONS
from vig_governor.measure.exchange import Caller
from vig_governor.measure.lines import measure_quantum_cost
from vig_governor.measure.quanta import QuantumMeter
from vig_governor.measure.runtime import quantile

TOKENS, CONTEXTS = (1, 4, 8, 16), (8, 32, 64)
"""Short contexts: those of the demo and its benchmark are."""

QUANTUM_TOKENS = 4
"""Of the quanta that tell how much the runtimes spread."""

PLANNED_PERCENT = 110
"""Of a run's cost, as vig.yaml says."""

INSPECT_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class WriterCosts:
    """
    The cost model of a language model, and how much the runtimes of its quanta spread.

    :ivar new_prompt_per_token_us: to read a token that the server has not seen.
    """

    quantum_p50_us: int
    quantum_p99_us: int
    base_cost_us: int
    tokens_per_second: float
    prefill_per_token_us: float
    new_prompt_per_token_us: float

    @property
    def token_ms(self) -> float:
        """Time to write one token."""
        return NS_PER_S / NS_PER_MS / self.tokens_per_second

    def planned_ms(self, tokens: int, new_tokens: int = 0) -> float:
        """
        Give what one request for so many tokens is planned with: its cost, spread and margin.

        :param new_tokens: of its prompt that the server has not seen.
        """
        cost_us = self.base_cost_us + new_tokens * self.new_prompt_per_token_us
        return ((cost_us * NS_PER_US / NS_PER_MS + tokens * self.token_ms)
                * self.quantum_p99_us / self.quantum_p50_us * PLANNED_PERCENT / 100)


def quantum_meter(backend: TritonBackend, model: str) -> QuantumMeter:
    """
    Make what measures the quanta of a served language model.

    :param backend: connected; nothing else may use the server meanwhile.
    """
    return QuantumMeter(Caller(backend, 'meter'), model,
                        backend.inspect(model, timeout_s=INSPECT_TIMEOUT_S), OPTIONS)


def measure_writer(meter: QuantumMeter, repeats: int) -> WriterCosts:
    """
    Measure the cost model and the spread.

    :param repeats: of each text; the quanta for the spread are in proportion.
    :raises MeasurementFailed: says which model gave no figure and why.
    """
    cost = measure_quantum_cost(meter, tokens=TOKENS, contexts=CONTEXTS, repeats=repeats)
    quanta = [meter(CONTEXTS[0], QUANTUM_TOKENS).next_ns for _ in range(8 * repeats)]
    return WriterCosts(
        *(round(quantile(quanta, percent) / NS_PER_US) for percent in (50, 99)),
        cost.base_cost_us, cost.tokens_per_second, cost.prefill_per_token_us,
        cost.new_prompt_per_token_us)


def describe(model: str, costs: WriterCosts) -> str:
    """Say what was measured in one line."""
    base_ms, read_ms = (us * NS_PER_US / NS_PER_MS
                        for us in (costs.base_cost_us, costs.new_prompt_per_token_us))
    return (f'  measured {model:18} {base_ms:.1f} ms a request, {costs.token_ms:.1f} a token, '
            f'{read_ms:.1f} a token to read')
