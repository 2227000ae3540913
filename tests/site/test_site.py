"""The documentation site: a page for everything, links that lead somewhere, nothing that is not true."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from rich.text import Text
from tools.site import guides, mode_map, pictures, sessions, topics
from tools.site.check import problems
from tools.site.markup import Markup
from tools.site.names import KEYS
from tools.site.page import plain, table

from mbpack.cli.main import COMMANDS
from mbpack.facts.derivations import MEANINGS
from mbpack.facts.families import FAMILIES
from mbpack.facts.keys import RENAMES
from mbpack.facts.modes import MODES
from mbpack.facts.pages import SITE, rule_url
from mbpack.facts.pitfalls import PITFALLS
from mbpack.facts.releases import RELEASES
from mbpack.report.explain_more import keys_read
from mbpack.rules.catalogue import ALL_RULES, BY_NAME
from mbpack.rules.documentation import page_of
from tests.site.conftest import Built

ROOT = Path(__file__).parents[2]


def text_of(tree: ElementTree.Element) -> str:
    """The words of a page."""
    return " ".join("".join(tree.itertext()).split())


# ---------------------------------------------------------------------- as a whole


def test_nothing_is_wrong_with_links_anchors_and_html(built: Built) -> None:
    assert problems(built.files) == []
    assert len(built.trees) > 800


def test_nothing_of_this_machine_is_on_it(built: Built) -> None:
    for path, content in built.files.items():
        assert str(ROOT).encode() not in content, path
        assert b"/tmp/" not in content, path


def test_pages_load_nothing_from_elsewhere(built: Built) -> None:
    for path, tree in built.trees.items():
        for element in tree.iter():
            if element.tag.rpartition("}")[2] in ("script", "img", "link") and element.get("rel") not in (
                "canonical",
                "alternate",
            ):
                assert not (element.get("src") or element.get("href") or "").startswith("http"), path
    for path, content in built.files.items():
        if path.endswith(".svg"):
            assert not re.search(rb"(@import|url\(|href=[\"'])\s*[\"']?https?:", content), path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1><a href='no.html'>x</a></html>"}, "no such file"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1><a href='#no'>x</a></html>"}, "no such anchor"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x<br></h1></html>"}, "not well-formed"),
        ({"a.html": "<html><title>x</title><h1>x</h1></html>"}, "no language"),
        ({"a.html": "<html lang='en'><title>x</title></html>"}, "0 <h1>"),
        ({"a.html": "<html lang='en'><title>x</title><h1 id='a'>x</h1><p id='a'/></html>"}, "twice"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1><img src='a.svg'/></html>", "a.svg": "<svg/>"}, "without a text"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1><h3>y</h3></html>"}, "level 3 below"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1><a href='javascript:x'>x</a></html>"}, "secure"),
        ({"a.html": "<html lang='en'><title>x</title><h1>x</h1></html>"}, "no page leads to it"),
        ({"a.html": f"<html lang='en'><title>x</title><h1>x</h1><a href='{SITE}no.html'>x</a></html>"}, "no such file"),
    ],
)
def test_what_is_wrong_is_found(change: dict[str, str], said: str) -> None:
    files = {}
    for path, text in change.items():
        files[path] = text.replace("<html", "<html xmlns='http://www.w3.org/1999/xhtml'").encode()
    assert any(said in problem for problem in problems(files)), problems(files)


# ---------------------------------------------------------------------- a page for everything


def test_every_rule_has_its_page_with_its_examples(built: Built) -> None:
    for rule in ALL_RULES:
        shown = text_of(built.trees[rule_url(rule.code).removeprefix(SITE)])
        doc = page_of(rule)
        assert rule.slug in shown
        for part in (doc.title, *doc.bad, *doc.good, *doc.upstream):
            assert " ".join(part.replace("`", "").split()) in shown, rule.code


def test_every_key_that_rules_read_has_its_page(built: Built) -> None:
    named = set(MEANINGS) | {rename.new for rename in RENAMES}
    assert named <= KEYS
    for key in KEYS:
        shown = text_of(built.trees[f"keys/{key}.html"])
        assert key in shown
        assert all(rule.code in shown for rule in ALL_RULES if key in keys_read(rule)), key


def test_modes_families_pitfalls_releases_and_commands_have_theirs(built: Built) -> None:
    for name, mode in MODES.items():
        assert mode.where in text_of(built.trees[f"modes/{name}.html"])
    for family in FAMILIES:
        assert family.title in text_of(built.trees[f"families/{family.name}.html"])
    for pitfall in PITFALLS:
        shown = text_of(built.trees[f"pitfalls/{pitfall.number}.html"])
        assert pitfall.text in shown
        assert all(BY_NAME[slug].code in shown for slug in pitfall.rules if slug in BY_NAME)
    for release in RELEASES:
        assert release.newest_patch in text_of(built.trees[f"releases/{release.name}.html"])
    for command in COMMANDS:
        assert f"Usage: mbpack {command}" in text_of(built.trees[f"commands/{command}.html"])


def test_indexes_lead_to_every_page_of_their_kind(built: Built) -> None:
    for kind in ("rules", "keys", "modes", "families", "pitfalls", "releases", "commands"):
        targets = {element.get("href", "") for element in built.trees[f"{kind}/index.html"].iter()}
        for path in built.trees:
            if path.startswith(f"{kind}/") and not path.endswith("index.html"):
                assert {f"../{path}", path.rpartition("/")[2]} & targets, path


def test_names_in_a_text_are_links(built: Built) -> None:
    hrefs = {element.get("href") for element in built.trees["rules/ALN101.html"].iter()}
    assert {"../keys/model.context_parallel_size.html", "../pitfalls/3.html", "index.html", "../rules/index.html"} & hrefs
    assert "../rules/BAT101.html" in {element.get("href") for element in built.trees["keys/train.micro_batch_size.html"].iter()}


def test_a_family_page_says_what_explain_says(built: Built) -> None:
    shown = text_of(built.trees["families/gemma2.html"])
    assert "in-batch packing 0.3 to nightly: refused: its attention is not implemented for packed rows" in shown


def test_releases_say_which_keys_changed_their_name(built: Built) -> None:
    shown = text_of(built.trees["releases/0.6.html"])
    assert "dataset.packed_sequence_specs dataset.offline_packing_specs" in shown


def test_the_search_finds_pages_by_code_key_and_family(built: Built) -> None:
    start, _, rest = built.files["search-index.js"].decode().partition(" = ")
    entries = json.loads(rest.rstrip(";\n"))
    assert start == "window.MBPACK_PAGES"
    assert {path for _, path, _, _ in entries} == set(built.trees)
    assert any(title.startswith("BAT101 ") and "batch/offline-mbs-one" in words for title, _, _, words in entries)


def test_machines_get_a_list_too(built: Built) -> None:
    listed = built.files["llms.txt"].decode()
    assert rule_url("ALN101") in listed
    assert built.files["sitemap.xml"].decode().count("<loc>") == len(built.trees)


# ---------------------------------------------------------------------- what is shown is what happens


def test_recorded_sessions_show_what_the_commands_print(built: Built) -> None:
    for name, command, _ in guides.RECORDED:
        with sessions.folder():
            _, printed = sessions.output(command, colour=True)
        drawn = ElementTree.fromstring(built.files[f"sessions/{name}.svg"])
        shown = "".join(text for element in drawn.iter() if element.tag.endswith("}text") for text in element.itertext())
        wanted = "".join(Text.from_ansi(printed).plain.split())
        assert wanted in "".join(shown.replace("\xa0", " ").split()), name


def test_frames_of_the_wizard_are_those_of_the_readme(built: Built) -> None:
    shown = guides.frames()
    assert len(shown) > 8
    for number, frame in enumerate(shown):
        drawn = "".join(ElementTree.fromstring(built.files[f"sessions/init-{number}.svg"]).itertext())
        assert "".join(frame.split()) in "".join(drawn.replace("\xa0", " ").split())


def test_the_map_is_what_the_wizard_recommends(built: Built) -> None:
    cells = {(job.title, release.name): mode_map.cell(job, release) for job in mode_map.JOBS for release in RELEASES}
    modes = {cell.mode for cell in cells.values()}
    assert modes >= {"offline", "in_batch", "energon", "none", ""}
    assert cells["Text, rows of varying length", "0.6"].mode == "offline"
    assert "global_batch" in cells["Text, rows of varying length", "0.7"].also
    assert cells["Text, Gemma 2", "0.6"] == mode_map.Cell("none")
    shown = text_of(built.trees["modes/index.html"])
    assert "Images or video, Energon WebDataset, 0.6 to 0.6: in-batch packing" in shown
    assert "Images or video, Energon WebDataset, 0.7 to nightly: native Energon packing" in shown


def test_the_bars_of_fit_add_up() -> None:
    with sessions.folder():
        _, printed = sessions.output(pictures.FIT.format(8192))
    data = json.loads(printed)
    assert sum(pictures.shares(data)) == pytest.approx(data["allocated_gib"], abs=0.01)
    assert f"{data['gpu']['usable_gib']} GiB usable" in pictures.bars([(8192, data)])


def test_plots_of_every_mode_are_there(built: Built) -> None:
    for name in ("plan", "plan-in_batch", "plan-energon", "plan-global_batch", "plan-dynamic_cp"):
        assert built.files[f"plots/{name}.svg"].startswith(b"<?xml")


def test_the_contract_names_every_field_of_a_real_report(built: Built) -> None:
    shown = text_of(built.trees["json.html"])
    with sessions.folder():
        _, printed = sessions.output("mbpack doctor sft.yaml --format json")
    finding = json.loads(printed)["files"][0]["findings"][0]
    assert all(f"files[].findings[].{name}" in shown for name in finding)


def test_the_python_page_names_everything_public(built: Built) -> None:
    from mbpack import api

    shown = text_of(built.trees["python.html"])
    assert all(f"mbpack.{name}" in shown for name in api.__all__)
    assert "raise_on: RaiseOn = 'error'" in shown
    assert "CheckFailed: there is a finding of severity raise_on or worse." in shown


# ---------------------------------------------------------------------- the quick start


def runs(language: str) -> list[str]:
    text = (ROOT / f"tools/site/texts/quickstart.{language}.md").read_text(encoding="utf-8")
    return re.findall(r"^```run.*?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("language", guides.LANGUAGES)
def test_quick_starts_have_the_same_commands_and_they_do_what_the_text_says(built: Built, language: str) -> None:
    assert runs(language) == runs("en")
    lines = [line for block in runs(language) for line in block.splitlines()]
    ran = built.site.recorder.ran
    assert set(lines) <= set(ran)
    wrong = {line for line in lines if ran[line] != 0}
    assert wrong == {"mbpack doctor packing.yaml train.micro_batch_size=2", "mbpack migrate old.yaml --to 0.6 --diff"}
    assert {ran[line] for line in wrong} == {1}


@pytest.mark.parametrize("language", guides.LANGUAGES)
def test_quick_starts_say_their_language_and_lead_to_the_others(built: Built, language: str) -> None:
    path = "quickstart.html" if language == "en" else f"quickstart.{language}.html"
    tree = built.trees[path]
    assert tree.get("lang") == language
    text = text_of(tree)
    hrefs = {element.get("href") for element in tree.iter()}
    assert {"quickstart.html", "quickstart.zh.html", "quickstart.ja.html", "quickstart.ru.html"} <= hrefs
    english = text_of(built.trees["quickstart.html"])
    assert text.count("#") == english.count("#")
    if language != "en":
        script = {"zh": "[\u4e00-\u9fff]", "ja": "[\u3040-\u30ff]", "ru": "[\u0430-\u044f]"}[language]
        assert len(re.findall(script, text)) > 400
    for term in ("micro_batch_size", "offline packing", "context parallel", "Megatron-Bridge", "KEY=VALUE"):
        assert term in text, term


# ---------------------------------------------------------------------- its parts


def markup() -> Markup:
    return Markup({"BAT101": "rules/BAT101.html", "a.b": "keys/a.b.html"}, lambda lines: [(0, line) for line in lines])


def test_text_of_docstrings_stays_what_it_is() -> None:
    html, _ = markup().html(plain("lcm(2*CP = 4, CP*TP = 8), _target_ of `a_b*c*`, <tag> [x](y)"), "")
    assert html == "<p>lcm(2*CP = 4, CP*TP = 8), _target_ of <code>a_b*c*</code>, &lt;tag&gt; [x](y)</p>\n"


def test_names_lead_to_their_pages_but_not_on_them_nor_in_links() -> None:
    html, headings = markup().html("see BAT101 and `a.b`\n\n## A `b`\n\n[BAT101](x.html)\n\n## A b", "../", "keys/a.b.html")
    assert '<a href="../rules/BAT101.html">BAT101</a> and <code>a.b</code>' in html
    assert '<a href="../x.html">BAT101</a>' in html
    assert [heading.anchor for heading in headings] == ["a-b", "a-b-"]


def test_tables_keep_bars_inside_cells() -> None:
    assert table(("a",), [("int|null",)]) == "| a |\n| --- |\n| int\\|null |"
    assert table(("a",), []) == ""


def test_only_known_commands_are_run() -> None:
    with pytest.raises(ValueError, match="not run when the site is built: rm -rf"):
        sessions.output("rm -rf x")


def test_a_line_of_explain_becomes_what_it_is() -> None:
    lines = ["\x1b[1mRules\x1b[0m", "  BAT101  a title", "   3  a pitfall", "Field      int, default 1", "  uv run x", ""]
    made = "\n".join(topics._markdown(lines))
    assert "## Rules" in made
    assert "- `BAT101` a title" in made
    assert "- [Pitfall 3](pitfalls/3.html): a pitfall" in made
    assert "- **Field**: int, default 1" in made
    assert "```sh\nuv run x\n```" in made


def test_nothing_of_it_is_imported_by_the_package() -> None:
    code = "import sys; from mbpack.cli.main import run; run(['doctor', '--help']); print([n for n in sys.modules if n.startswith(('tools', 'jinja2', 'markdown_it', 'pygments'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_workflow_builds_checks_and_deploys_it() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "docs.yml").read_text(encoding="utf-8"))
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    assert any("python -m tools.site --output" in step.get("run", "") for step in steps)
    used = [step["uses"].partition("@")[0] for step in steps if "uses" in step]
    assert "actions/deploy-pages" in used
    assert workflow["permissions"] == {"contents": "read"}
