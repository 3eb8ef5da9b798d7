"""The table of all checks: number, name, function; in the order in which they are told."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vig_governor.doctor import (
    contract_checks, file_checks, graph_checks, profile_checks, quanta_checks, server_checks,
    timing_checks,
)
from vig_governor.doctor.context import Context
from vig_governor.doctor.finding import Finding, Level


@dataclass(frozen=True, slots=True)
class Check:
    """
    One check.

    :ivar number: stable: scripts and people refer to it.
    """

    number: str
    name: str
    look: Callable[[Context], Iterable[Finding]]


CHECKS = (
    Check('D01', 'file', file_checks.check_file),
    Check('D02', 'server', server_checks.check_reachable),
    Check('D03', 'models', server_checks.check_models),
    Check('D04', 'signatures', server_checks.check_signatures),
    Check('D05', 'batching', server_checks.check_batching),
    Check('D06', 'slots', server_checks.check_slots),
    Check('D07', 'shared memory', server_checks.check_shared_memory),
    Check('D08', 'foreign callers', server_checks.check_foreign_callers),
    Check('D09', 'profiles', profile_checks.check_profiles),
    Check('D10', 'manifest', profile_checks.check_manifests),
    Check('D11', 'operating point', profile_checks.check_operating_point),
    Check('D12', 'utilisation', timing_checks.check_utilisation),
    Check('D13', 'max_age', timing_checks.check_max_age),
    Check('D14', 'background', timing_checks.check_background),
    Check('D15', 'quanta', quanta_checks.check_quanta),
    Check('D16', 'supply', timing_checks.check_supply),
    Check('D17', 'not enforced', contract_checks.check_unenforced),
    Check('D18', 'topics', graph_checks.check_topics),
    Check('D19', 'rates', graph_checks.check_rates),
    Check('D20', 'stamps', graph_checks.check_stamps),
    Check('D21', 'transport', graph_checks.check_transport),
    Check('D22', 'disk', file_checks.check_disk),
    Check('D23', 'budgets', contract_checks.check_budgets),
    Check('D24', 'progress', contract_checks.check_progress),
    Check('D25', 'limits', contract_checks.check_limits),
)


def examine(context: Context) -> list[tuple[Check, Finding]]:
    """Make every check; give of each what is wrong, or the one line that says that nothing is."""
    found = []
    for check in CHECKS:
        findings = list(check.look(context))
        wrong = [one for one in findings if one.level in (Level.WARN, Level.FAIL)]
        found += [(check, one) for one in wrong or findings]
    return found
