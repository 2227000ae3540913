"""Command line: set up real releases, list what is there, or judge one file by hand.

python -m tests.conformance.real setup DIR [0.3 0.4 0.5 0.6 | X.Y.Z ...]
python -m tests.conformance.real list
python -m tests.conformance.real recipes RELEASE
python -m tests.conformance.real judge RELEASE [--gpus N] [--recipe NAME] FILE.yaml [KEY=VALUE ...]
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from ..judge import Judge, load_recipes
from . import environments


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    setup = commands.add_parser("setup", help="install releases from the package index into DIR")
    setup.add_argument("dir", type=Path)
    setup.add_argument("releases", nargs="*", default=list(environments.RELEASES))
    commands.add_parser("list", help="releases that are set up")
    recipes = commands.add_parser("recipes", help="recipes that build without a network, with their main values")
    recipes.add_argument("release")
    judge = commands.add_parser("judge", help="verdict on one file")
    judge.add_argument("release")
    judge.add_argument("--gpus", type=int)
    judge.add_argument("--recipe")
    judge.add_argument("inputs", nargs="+", metavar="FILE.yaml | KEY=VALUE")
    args = parser.parse_args()
    try:
        run(args)
    except environments.EnvironmentMissing as error:
        sys.exit(str(error))


def run(args: argparse.Namespace) -> None:
    if args.command == "setup":
        environments.setup(args.dir.resolve(), args.releases or list(environments.RELEASES))
    elif args.command == "list":
        for release in environments.available():
            print(release, environments.RELEASES[release].bridge, environments.folder())
    elif args.command == "recipes":
        print(json.dumps(load_recipes(args.release), indent=1))
    else:
        print(json.dumps(by_hand(args), indent=1))


def by_hand(args: argparse.Namespace) -> object:
    files = [i for i in args.inputs if "=" not in i]
    pairs = [i for i in args.inputs if "=" in i]
    if len(files) > 1 or (pairs and not args.recipe) or not (files or args.recipe):
        sys.exit("give one file, or --recipe with a file and KEY=VALUE pairs")
    text = Path(files[0]).read_text() if files else None
    directive = re.search(r"#\s*mbpack:.*\bgpus=(\d+)", text or "")
    gpus = args.gpus or (int(directive.group(1)) if directive else 1)
    row = {"id": files[0] if files else args.recipe, "release": args.release, "gpus": gpus}
    if args.recipe:
        row |= {"recipe": args.recipe, "yaml": text, "overrides": pairs}
    else:
        import yaml

        row["config"] = yaml.safe_load(text or "")
    return Judge(args.release).judge([row])[0]


if __name__ == "__main__":
    main()
