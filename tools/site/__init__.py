"""The documentation site, made from what mbpack knows: docstrings of rules, facts, help, schemas, real runs. No page is written by hand
but the quick start, whose commands are run when it is built.

    python -m tools.site --output DIR
"""
