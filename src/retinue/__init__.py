"""Runs agents that are written as files."""
