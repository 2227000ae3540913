"""Findings as text, JSON, SARIF, GitHub annotations and JUnit."""
