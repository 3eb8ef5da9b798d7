"""Discrete-event simulation of the very same scheduler in virtual time."""
