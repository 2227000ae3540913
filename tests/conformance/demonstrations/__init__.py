"""Consequences, demonstrated: upstream's own code of each release, run on a CPU at a bad and at a good setting.

A demonstration is one module of this folder:

    RULES      codes of the rules whose consequence it shows
    RELEASES   release lines it runs on
    EXPECTED   names of exceptions that are the damage (for crashes)
    trial(good: bool) -> str | None
               runs upstream's code; what it returns is the damage that was seen, None where there is none

It fails where the bad setting shows no damage or the good one shows any. Modules run inside the environment of a release
(:mod:`.worker`), import only what is there, and hold nothing of upstream's text; `upstream.py` has the stand-ins they share.
"""
