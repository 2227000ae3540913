"""From documents and context to a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from mbpack.config.context import Context, ContextError
from mbpack.config.document import Document, is_whole
from mbpack.config.evidence import NOTHING, Evidence
from mbpack.config.overrides import Override, OverrideProblem, as_document
from mbpack.config.run import Run
from mbpack.config.settings import Layer, Origin, Settings
from mbpack.facts import learned, recipes
from mbpack.facts.knowledge import reach, recipes_complete
from mbpack.facts.recipes import Recipe
from mbpack.facts.releases import R07
from mbpack.facts.schema import schema

#: From this likeness on a name is taken for a misspelling of a shipped one rather than somebody's own recipe.
_ALIKE = 0.93
#: How many recipes of a model are named.
_SHOWN = 4


class UnknownRecipe(ContextError):
    """A recipe that the release does not ship: a fork's, another release's (``mistaken``), or misspelled (``mistaken``).

    ``hint`` says where a recipe of that name is, or which names are near; ``meant`` are the recipes of the public model that
    the name is the id of.
    """

    def __init__(self, message: str, hint: str, mistaken: bool, meant: Sequence[str] = ()) -> None:
        super().__init__(message + hint)
        self.meant = tuple(meant)
        self.message, self.hint, self.mistaken = message, hint, mistaken


#: Why a value of a learned recipe is not known.
_UNREAD = "the recipe works it out from what its sources do not say"


def find_recipe(context: Context) -> Recipe | None:
    """The recipe a context names.

    Raises:
        UnknownRecipe: when the release has no such recipe; the message offers close names.
    """
    if context.recipe is None:
        return None
    release = context.version.release.name
    own = learned.find(context.version.patch)
    if own is not None:
        recipe = recipes.find_learned(release, context.version.patch, context.recipe)
        if recipe is None and own.recipes:
            raise _not_learned(own, context.recipe)
    if own is None or recipe is None:
        recipe = recipes.find(release, context.recipe)
    if recipe is None and "/" in context.recipe:
        meant = recipes.of_model(release, context.recipe)
        if meant:
            shown = ", ".join(sorted(meant, key=len)[:_SHOWN])
            says = f"{context.recipe} is a model, of which Megatron-Bridge {release} has {len(meant)} recipe{'' if len(meant) == 1 else 's'}"
            raise UnknownRecipe(says, f": {shown}{', ...' if len(meant) > _SHOWN else ''}", False, meant)
    if recipe is None:
        near = recipes.suggest(release, context.recipe)
        elsewhere = [r for r in ("0.3", "0.4", "0.5", "0.6", "0.7") if r != release and recipes.find(r, context.recipe)]
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        if elsewhere:
            hint = f" (it exists in {', '.join(elsewhere)}){hint}"
        mistaken = bool(elsewhere or recipes.suggest(release, context.recipe, 1, _ALIKE))
        says = f"Megatron-Bridge {release} has no recipe {context.recipe}"
        if context.recipe in recipes.BY_NAME and context.version.release >= R07:
            says, hint, mistaken = f"{context.recipe} came to 0.7 after the recipes that mbpack has read", "", False
        elif recipes.PERFORMANCE.search(context.recipe):
            says = f"{context.recipe} has the name of a performance recipe for pretraining, which mbpack does not hold"
        elif not recipes_complete(context.version):
            says = f"mbpack knows no recipe {context.recipe} ({reach(context.version)})"
        raise UnknownRecipe(says, hint, mistaken)
    return recipe


def _not_learned(own: learned.Learned, name: str) -> UnknownRecipe:
    """What is wrong with a recipe of a learned version."""
    if name in own.recipes or name in own.aliases:
        return UnknownRecipe(f"{name} is a recipe of {own.patch}, learned by its name alone", "", False)
    import difflib

    near = difflib.get_close_matches(name, [*own.recipes, *own.aliases], n=3)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    return UnknownRecipe(f"Megatron-Bridge {own.patch}, as learned on {own.when}, has no recipe {name}", hint, bool(near))


def build_run(
    context: Context,
    documents: Sequence[Document],
    overrides: Sequence[Override | OverrideProblem] = (),
    environ: Mapping[str, str] | None = None,
    evidence: Evidence = NOTHING,
    override_documents: Sequence[Document] = (),
    doubted: Collection[str] = (),
) -> Run:
    """A run over documents (lowest layer first) and override settings on top.

    ``override_documents`` hold the values of the overrides, lowest first, where they have places of their own (a script).
    ``doubted``: environment variables whose defaults count for nothing.

    Raises:
        ContextError: when the context's recipe does not exist.
    """
    layers = [Layer(document.root, Origin.FILE, document) for document in documents if document.root is not None]
    complete = bool(layers) and is_whole(layers[0].root)
    if overrides:
        for document in override_documents or (as_document(overrides),):
            if document.root is not None:
                layers.append(Layer(document.root, Origin.OVERRIDE, document))
    recipe = None if complete else find_recipe(context)
    if recipe is not None and context.clouded:
        recipe = recipe.without(context.clouded)
    settings = Settings(
        context.version,
        schema(context.version.release.name, context.version.patch),
        layers,
        recipe=recipe,
        complete=complete,
        environ=environ,
        clouded={**dict.fromkeys(recipe.unread, _UNREAD), **context.clouded} if recipe is not None else None,
        doubted=doubted,
    )
    return Run(settings, context, evidence, overrides)
