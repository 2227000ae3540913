"""Conformance: mbpack's verdicts against those of the real Megatron-Bridge packages (see README.md in this folder)."""
