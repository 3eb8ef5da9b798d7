"""Adapters to inference servers."""
