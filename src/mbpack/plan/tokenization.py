"""Token counts of prompt-completion and chat rows, with tokenizer files that lie on this machine.

Counts follow what upstream tokenizes: prompt and completion separately, without special tokens, plus the end token; a
chat through the model's chat template. No hub is asked.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from mbpack.plan._optional import PlanError, one_line, optional


@dataclass(frozen=True, slots=True)
class TokenizerSpec:
    """Where the tokenizer is, and what is added to the text's own tokens.

    Attributes:
        path: ``tokenizer.json``, a folder that holds one, or mistral-common's ``tekken.json``.
        template: a Jinja chat template file; None takes the one beside the tokenizer.
        turn_tokens: tokens the chat format adds to each message; given instead of a template, where markers are special
            tokens (ChatML: 4 or 5).
        row_tokens: tokens added once to each chat (beginning and end); with ``turn_tokens``.
        bos: whether a prompt-completion row starts with a beginning token (``add_bos``).
        eos: whether it ends with the end token (``add_eos``, upstream's default).
    """

    path: str
    template: str | None = None
    turn_tokens: int | None = None
    row_tokens: int = 0
    bos: bool = False
    eos: bool = True

    def load(self) -> Counter:
        """Open the tokenizer.

        Raises:
            PlanError: when files are missing or damaged.
            MissingExtraError: when the package that reads them is not installed.
        """
        encode, folder = _open(Path(self.path))
        render = None
        if self.turn_tokens is None:
            template, tokens = _find_template(self.template, folder)
            render = _renderer(template, tokens) if template is not None else None
        return Counter(self, encode, render)


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts tokens: ``encode`` gives the number of tokens of a text, special tokens written in it counted as one."""

    spec: TokenizerSpec
    encode: Callable[[str], int]
    render: Callable[[Sequence[Any], Any], str] | None

    def text(self, text: str) -> int:
        """Tokens of a plain text, nothing added."""
        return self.encode(text)

    def pair(self, prompt: str, completion: str) -> int:
        """Stored tokens of a prompt-completion row (upstream strips blanks and tokenizes the two apart)."""
        return self.encode(prompt.strip(" ")) + self.encode(completion.strip(" ")) + self.spec.bos + self.spec.eos

    def chat(self, messages: Sequence[Any], tools: Any = None) -> int:
        """Stored tokens of a chat.

        Raises:
            PlanError: when a message is not usable, or there is no chat template.
        """
        turns = [_message(message) for message in messages]
        if self.spec.turn_tokens is not None:
            own = sum(self.encode(turn["content"]) for turn in turns)
            return own + self.spec.turn_tokens * len(turns) + self.spec.row_tokens
        if self.render is None:
            raise PlanError(
                "the tokenizer has no chat template: give --chat-template FILE, or --turn-tokens N where the format "
                "adds a fixed number of special tokens to each message"
            )
        return self.encode(self.render(turns, tools))


def _message(message: Any) -> dict[str, Any]:
    """A message with role and content, from the spellings upstream accepts."""
    if isinstance(message, Mapping):
        role = message.get("role", message.get("from"))
        content = message.get("content", message.get("value"))
        role = {"human": "user", "gpt": "assistant"}.get(role, role) if isinstance(role, str) else role
        if isinstance(content, list):  # parts of a multimodal message: the text ones count
            content = "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
        if isinstance(role, str) and (isinstance(content, str) or content is None):
            return {**message, "role": role, "content": content or ""}
    raise PlanError("a chat message needs a role and a content text")


def _open(path: Path) -> tuple[Callable[[str], int], Path]:
    """A function from text to its number of tokens, and the tokenizer's folder."""
    if path.is_dir():
        for name in ("tokenizer.json", "tekken.json"):
            if (path / name).is_file():
                return _open(path / name)
        raise PlanError(f"tokenizer {path}: no tokenizer.json or tekken.json in this folder")
    if not path.is_file():
        raise PlanError(f"tokenizer {path}: no such file (only local files are read, no hub names)")
    if "tekken" in path.name:
        try:
            mistral = import_module("mistral_common.tokens.tokenizers.tekken")
        except ImportError:
            raise PlanError("reading tekken.json needs mistral-common: pip install mistral-common") from None
        try:
            tekken = mistral.Tekkenizer.from_file(path)
        except Exception as error:
            raise PlanError(f"tokenizer {path}: not a tekken vocabulary ({one_line(error)})") from None
        return lambda text: len(tekken.encode(text, bos=False, eos=False)), path.parent
    tokenizers = optional("tokenizers", "tokenize", "reading tokenizer.json")
    try:
        fast = tokenizers.Tokenizer.from_file(str(path))
    except Exception as error:
        raise PlanError(f"tokenizer {path}: not a tokenizer.json ({one_line(error)})") from None
    fast.no_truncation()
    fast.no_padding()
    return lambda text: len(fast.encode(text, add_special_tokens=False).ids), path.parent


def _find_template(given: str | None, folder: Path) -> tuple[str | None, dict[str, str]]:
    """The chat template and the special tokens it may name, from the files beside the tokenizer."""
    config: dict[str, Any] = {}
    if (folder / "tokenizer_config.json").is_file():
        try:
            loaded = json.loads((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
            config = loaded if isinstance(loaded, dict) else {}
        except (OSError, ValueError):
            raise PlanError(f"{folder / 'tokenizer_config.json'}: not readable JSON") from None
    tokens = {}
    for name in ("bos_token", "eos_token", "pad_token", "unk_token"):
        value = config.get(name)
        value = value.get("content") if isinstance(value, Mapping) else value
        tokens[name] = value if isinstance(value, str) else ""
    try:
        if given is not None:
            return Path(given).read_text(encoding="utf-8"), tokens
        if (folder / "chat_template.jinja").is_file():
            return (folder / "chat_template.jinja").read_text(encoding="utf-8"), tokens
    except (OSError, UnicodeDecodeError) as error:
        raise PlanError(f"chat template: {one_line(error)}") from None
    template = config.get("chat_template")
    if isinstance(template, list):  # several named templates: the default one
        named = {entry.get("name"): entry.get("template") for entry in template if isinstance(entry, Mapping)}
        template = named.get("default")
    return template if isinstance(template, str) else None, tokens


def _renderer(template: str, tokens: Mapping[str, str]) -> Callable[[Sequence[Any], Any], str]:
    """A function that renders a chat as transformers' ``apply_chat_template`` does without a generation prompt."""
    jinja2 = optional("jinja2", "tokenize", "a chat template")
    sandbox = optional("jinja2.sandbox", "tokenize", "a chat template")
    extension = optional("jinja2.ext", "tokenize", "a chat template").Extension

    def parse(_: Any, parser: Any) -> Any:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)

    # `{% generation %}` marks what is trained; it does not change the text
    generation = type("Generation", (extension,), {"tags": {"generation"}, "parse": parse})

    def raise_exception(message: str) -> None:
        raise jinja2.TemplateError(message)

    def tojson(value: Any, indent: int | None = None, **_: Any) -> str:
        return json.dumps(value, ensure_ascii=False, indent=indent)

    environment = sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[generation, "jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda _: "26 Jul 2024"  # the length of a date is what counts
    try:
        compiled = environment.from_string(template)
    except jinja2.TemplateError as error:
        raise PlanError(f"chat template: {one_line(error)}") from None

    def render(messages: Sequence[Any], tools: Any) -> str:
        try:
            return str(compiled.render(messages=messages, tools=tools, add_generation_prompt=False, **tokens))
        except Exception as error:
            raise PlanError(f"the chat template refuses this chat ({one_line(error)})") from None

    return render
