"""The contract file vig.yaml: schema, loading with line numbers, resolution to core values."""

from vig_governor.config.load import load_config
from vig_governor.config.options import BackendOptions, Config, SecurityOptions
from vig_governor.config.problems import ConfigError, Problem
from vig_governor.config.streams import StreamBinding

__all__ = ['BackendOptions', 'Config', 'ConfigError', 'load_config', 'Problem',
           'SecurityOptions', 'StreamBinding']
