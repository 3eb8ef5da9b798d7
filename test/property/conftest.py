"""Let these tests share the helpers of the core tests, and choose how long hypothesis looks."""

import os
from pathlib import Path
import sys

from hypothesis import HealthCheck, settings

_TEST = Path(__file__).resolve().parent.parent
for _folder in (_TEST / 'property', _TEST / 'core'):
    if str(_folder) not in sys.path:
        sys.path.insert(0, str(_folder))

_COMMON = {'deadline': None, 'suppress_health_check': [HealthCheck.too_slow,
                                                       HealthCheck.data_too_large]}
settings.register_profile('quick', max_examples=40, derandomize=True, database=None, **_COMMON)
settings.register_profile('thorough', max_examples=3000, **_COMMON)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'quick'))
