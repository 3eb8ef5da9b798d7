"""The contract file vig.yaml: schema, loading with line numbers, resolution to core values."""
