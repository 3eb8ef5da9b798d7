"""The contract of one model: file class to core value, and what an operator must know of it."""

from collections.abc import Mapping

from vig_core import units
from vig_core.contract import (
    Contract, DeliveryBoundary, DeliverySemantics, Evidence, MissBudget,
)
from vig_core.errors import ContractError
from vig_core.model import Model

from vig_governor.config.forced import forced_misses
from vig_governor.config.problems import Findings, Path
from vig_governor.config.schema_model import ContractBlock, Extension, ModelBlock

_KEY_OF_FIELD: dict[str, Path] = {
    'deadline': ('deadline_ms',), 'max_age': ('max_age_ms',), 'period': ('period_ms',),
    'variant_dwell': ('variant_dwell_ms',),
    'consumer_period': ('extension', 'consumer_period_ms'),
    'phase': ('extension', 'phase_ms'),
    'release_jitter': ('extension', 'release_jitter_ms'),
    'miss_budget': ('extension', 'miss_budget'),
    'approved_variants': ('extension', 'approved_variants'),
}
"""Where the fields of ``vig_core.contract.Contract`` stand below ``contract`` in the file."""


def resolve_contract(block: ContractBlock, model_at: Path, findings: Findings) -> Contract:
    """Resolve one contract; problems go to ``findings`` and the result then only stands in."""
    at = (*model_at, 'contract')
    extension = block.extension or Extension(version=1)
    budget = None
    if extension.miss_budget is not None:
        try:
            budget = MissBudget(**extension.miss_budget.model_dump())
        except ContractError as error:
            findings.refuse((*at, 'extension', *error.path), error.reason)
    consumer_period = extension.consumer_period_ms
    try:
        contract = Contract(
            deadline_ns=units.ms(block.deadline_ms),
            max_age_ns=None if block.max_age_ms is None else units.ms(block.max_age_ms),
            period_ns=None if block.period_ms is None else units.ms(block.period_ms),
            min_quality=block.min_quality, variant_dwell_ns=units.ms(block.variant_dwell_ms),
            release_jitter_ns=units.ms(extension.release_jitter_ms),
            consumer_period_ns=None if consumer_period is None else units.ms(consumer_period),
            phase_ns=units.ms(extension.phase_ms),
            require_new_sample_each_cycle=extension.require_new_sample_each_cycle,
            miss_budget=budget,
            approved_variants=(None if extension.approved_variants is None
                               else tuple(extension.approved_variants)),
            delivery_boundary=DeliveryBoundary(extension.delivery_boundary),
            delivery_semantics=DeliverySemantics(extension.delivery_semantics),
            evidence_required=Evidence(extension.evidence_required),
            minimum_background_progress_percent=extension.minimum_background_progress_pct,
            observation_window=extension.observation_window,
            contract_version=extension.contract_version)
    except ContractError as error:
        path = _KEY_OF_FIELD.get(error.path[0], error.path[:1]) + error.path[1:]
        findings.refuse((*at, *path), error.reason.replace('needs consumer_period:',
                                                           'needs consumer_period_ms:'))
        return Contract(deadline_ns=max(1, units.ms(block.deadline_ms)))
    _refuse_impossible(contract, (*at, 'extension'), findings)
    return contract


def unenforced(extension: Extension | None) -> Mapping[str, str]:
    """
    Tell what a contract says that nobody here enforces.

    :returns: key of the extension -> what becomes of it instead.
    """
    if extension is None:
        return {}
    found = {}
    if extension.delivery_boundary == 'consumer':
        found['delivery_boundary'] = ('not enforced: the governor sees its own publication and '
                                      'not the consumer, and counts results as delivered then')
    if extension.delivery_semantics == 'stateful_sequence':
        found['delivery_semantics'] = ('not enforced: a lost frame or a result out of order is '
                                       'counted as a missed cycle; nothing holds the next one '
                                       'back')
    if extension.evidence_required != 'observed':
        found['evidence_required'] = ('not enforced: a requirement on whoever signs the system '
                                      'off; what is observed is in ~/status, and neither is ever '
                                      'made into the other')
    if extension.minimum_background_progress_pct:
        found['minimum_background_progress_pct'] = (
            'not enforced: progress is observed and reported, and nothing is reserved for it')
    if extension.max_input_kib is not None:
        found['max_input_kib'] = ('not enforced: larger inputs run too; vig doctor compares it '
                                  'with the models and with what arrives')
    if extension.max_occupancy_pct is not None:
        found['max_occupancy_pct'] = ('not enforced: nothing is refused above it; vig doctor '
                                      'compares it with what the guarded streams plan')
    return found


def notice_contract(model: Model, block: ModelBlock, at: Path, findings: Findings) -> None:
    """Notice what is legal and probably not meant, and what is not enforced."""
    contract = model.contract
    at = (*at, 'contract')
    if contract.max_age_ns is not None and contract.max_age_ns < contract.deadline_ns:
        findings.notice((*at, 'max_age_ms'),
                        'is shorter than deadline_ms: a result can be worthless before it is '
                        'late; usually max_age_ms is the larger one')
    if model.criticality.is_guardable and contract.period_ns is None:
        findings.notice(at, f'class {block.class_name} without period_ms: nothing is kept free '
                        'for the next arrival; give period_ms')
    measured = [one.profile for one in block.variants if one.profile is not None]
    if contract.max_age_ns is not None and len(measured) == len(block.variants) and measured:
        fastest = min(variant.profile.p50_ns for variant in model.runnable_variants or
                      model.variants)
        if fastest > contract.max_age_ns:
            findings.notice((*at, 'max_age_ms'),
                            f'even the fastest variant takes {units.text_ms(fastest)}: every '
                            'request will end stale')
    extension = block.contract.extension
    if extension is None:
        return
    at = (*at, 'extension')
    _notice_cycles(contract, extension, at, findings)
    for key, sentence in unenforced(extension).items():
        findings.notice((*at, key), sentence)


def _notice_cycles(contract: Contract, extension: Extension, at: Path,
                   findings: Findings) -> None:
    if contract.cycle_ns is None:
        for key in ('phase_ms', 'require_new_sample_each_cycle'):
            if getattr(extension, key):
                findings.notice((*at, key), 'has no effect: without consumer_period_ms and '
                                'period_ms the contract has no cycles')
    elif (contract.miss_budget is not None and contract.max_age_ns is None
          and not contract.require_new_sample_each_cycle
          and contract.delivery_semantics is DeliverySemantics.LATEST_STATE):
        findings.notice((*at, 'miss_budget'), 'can never be broken once a result is there: '
                        'without max_age_ms it stays good for ever; give max_age_ms')
    if contract.period_ns is not None and 2 * contract.release_jitter_ns >= contract.period_ns:
        findings.notice(
            (*at, 'release_jitter_ms'), f'twice the envelope, '
            f'{units.text_ms(2 * contract.release_jitter_ns)}, is no less than the period of '
            f'{units.text_ms(contract.period_ns)}: a late frame cannot be told from the next one')
    for forced in forced_misses(contract):
        if contract.miss_budget is None:
            findings.notice((*at, 'consumer_period_ms'), forced.sentence(contract))


def _refuse_impossible(contract: Contract, at: Path, findings: Findings) -> None:
    for forced in forced_misses(contract):
        if forced.breaks(contract):
            findings.refuse((*at, 'miss_budget'), f'{forced.sentence(contract)}; lengthen '
                            'consumer_period_ms, raise the budget, or ask for less')
