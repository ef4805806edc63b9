"""Decides which models an agent may be asked of, best first.

The wish is what was asked for, else the definition's model, else the caller's, else
the operator's default. It is looked for at the provider it names, at the
definition's `providers` in order, or at the one provider that must be meant. All of
it happens when a run starts: a file may name models that are not there.
"""

import asyncio
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retinue.models import names, prices
from retinue.models.formats import BASE_URLS
from retinue.models.provider import DEFAULT_MAX_OUTPUT, DEFAULT_WINDOW, ProviderConfig, WireModel
from retinue.models.transport import Transport, host_of
from retinue.ports.model import Candidate, Model
from retinue.schema.agent import AgentDefinition
from retinue.schema.errors import ModelError

if TYPE_CHECKING:
    from retinue.models.scripted import ScriptedModel

_HOW = (
    "name one as provider/model; set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY; "
    "or configure a provider and default_model"
)
_DEEPEST_ALIAS = 8


class ProviderModels:
    """The models of the configured providers.

    Args:
        configs: In the order in which they are shown.
        aliases: The operator's names for models, over the shipped ones; case is ignored.
        env: Where keys are looked up.
        allowed_endpoints: The (base_url, variable) pairs that any definition may use;
            an empty URL is OpenAI's, an empty variable means without a key.
    """

    def __init__(
        self,
        configs: Sequence[ProviderConfig],
        *,
        aliases: Mapping[str, str] | None = None,
        default_model: str | None = None,
        env: Mapping[str, str] | None = None,
        allowed_endpoints: Collection[tuple[str, str]] = (),
        transport: Transport | None = None,
    ) -> None:
        self._configs = {config.name: config for config in configs}
        self._aliases = {k.casefold(): v for k, v in {**names.ALIASES, **(aliases or {})}.items()}
        self._default_model = default_model
        self._env = env or {}
        allowed = [(base or BASE_URLS["openai-chat"], variable) for base, variable in allowed_endpoints]
        self._allowed = {_pair(*pair) for pair in allowed}
        self._transport = transport or Transport()
        self._limits = {c.name: asyncio.Semaphore(c.concurrency) for c in configs if c.concurrency}
        self._endpoints = {host_of(base): _endpoint(base, variable) for base, variable in allowed}
        """Of definitions that may have one; their children inherit models of it, also in another process."""
        self._models: dict[tuple[str | None, ...], Model] = {}
        self._scripts: dict[Path, ScriptedModel] = {}

    def resolve(
        self,
        definition: AgentDefinition,
        *,
        asked: str | None = None,
        inherited: str | None = None,
        trusted: bool = True,
    ) -> Sequence[Candidate]:
        problems: list[str] = []
        found: dict[str, Candidate] = {}
        own = self._own_endpoint(definition, asked, inherited, trusted=trusted)
        rest = self._places(definition, asked, inherited, problems, own=bool(own))
        # One by one: what stood in the way of the first is why the first is not the first wish.
        for config, model, note in itertools.chain(own, rest):
            made = self._model(config, model, definition.id)
            if note is None and found:
                note = f"a fallback of {next(iter(found))}"
            elif note is None and problems:
                note = f"a fallback: {problems[0]}"
            found.setdefault(made.name, Candidate(model=made, note=note))
        if not found:
            raise self._nothing(definition, problems)
        return list(found.values())

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()
        for model in self._models.values():
            if not isinstance(model, WireModel) and (close := getattr(model, "close", None)):
                await close()

    def _places(
        self, definition: AgentDefinition, asked: str | None, inherited: str | None, problems: list[str], *, own: bool
    ) -> "Iterator[_Place]":
        order = tuple(dict.fromkeys(p for p in (definition.provider, *definition.providers) if p))
        if not own:
            yield from self._wanted(_real(asked, definition.model), inherited, order, problems)
        for fallback in definition.fallback_models:
            yield from self._named(fallback, order, problems)

    def _wanted(
        self, wishes: Sequence[str], inherited: str | None, order: Sequence[str], problems: list[str]
    ) -> "Iterator[_Place]":
        if wishes:
            yield from self._named(wishes[0], order, problems)
            return
        host, _, model = (inherited or "").partition("/")
        if host in self._endpoints:
            yield _Place(self._endpoints[host], model)
            return
        others = _real(inherited, self._default_model)
        for wish in others:
            # The definition may have a word on the provider when it has none on the model.
            places = self._named(self._bare(wish) if order else wish, order, problems)
            if (first := next(places, None)) is not None:
                yield first
                yield from places
                return
        for config in () if others else map(self._config, order):
            if config is not None and config.default_model:
                yield _Place(config, config.default_model)

    def _named(self, wish: str, order: Sequence[str], problems: list[str]) -> "Iterator[_Place]":
        """Where the model that is called `wish` can be asked; what stood in the way goes to `problems`."""
        name = self._alias(wish)
        prefix, slash, rest = name.partition("/")
        owner = self._config(prefix) if slash else None
        if owner is not None:
            yield from self._offered(owner, rest, problems, substitute=False)
            name = rest
        elif not order:
            for config in self._inferred(name, problems):
                yield from self._offered(config, name, problems, substitute=False)
        for provider in order:
            config = self._config(provider)
            if config is None:
                problems.append(f"provider {provider!r} is not configured")
            elif config is not owner:
                yield from self._offered(config, name, problems, substitute=True)

    def _offered(
        self, config: ProviderConfig, name: str, problems: list[str], *, substitute: bool
    ) -> "Iterator[_Place]":
        mapped = _find(config.mapping, name)
        if mapped is not None:
            yield _Place(config, config.mapping[mapped], f"{name} is {config.mapping[mapped]} at {config.name}")
        elif (own := _own_name(config, name)) is not None:
            yield _Place(config, own)
        elif substitute and config.default_model:
            model = config.default_model
            yield _Place(config, model, f"{config.name} has no {name}; its default_model {model} is used")
        else:
            offers = f", only {', '.join(config.models)}" if config.models else ""
            problems.append(f"provider {config.name!r} has no model {name!r}{offers}")

    def _inferred(self, name: str, problems: list[str]) -> list[ProviderConfig]:
        """The one provider that a name without a provider must mean."""
        maker = names.maker_of(names.normalised(name))
        configs = self._configs.values()
        open_ended = [c for c in configs if not c.models]
        wide = [c for c in open_ended if names.HOSTS.get(c.host) is None]
        for group in (
            [c for c in configs if c.models and _own_name(c, name)],
            [c for c in open_ended if maker and c.name in names.MAKERS[maker]],
            [c for c in open_ended if maker and (names.HOSTS.get(c.host) or _speaks(c)) == maker],
            [c for c in configs if _find(c.mapping, name)],
            wide if len(self._configs) == 1 or maker is None else [],
        ):
            if len(group) == 1:
                return group
            if group:
                problems.append(f"{name!r} may be meant of {' or '.join(c.name for c in group)}")
                return []
        problems.append(f"no configured provider offers {name!r}")
        return []

    def _own_endpoint(
        self, definition: AgentDefinition, asked: str | None, inherited: str | None, *, trusted: bool
    ) -> "list[_Place]":
        """The definition's own endpoint, if it may have one: no secret goes to a host of a file's choice."""
        endpoint = definition.openai
        if endpoint is None or not (endpoint.base_url or endpoint.api_key_env_var):
            return []
        if asked and (elsewhere := self._config(self._alias(asked).partition("/")[0])) and elsewhere.name != "openai":
            return []
        base, variable = endpoint.base_url or BASE_URLS["openai-chat"], endpoint.api_key_env_var or ""
        if not trusted and _pair(base, variable) not in self._allowed:
            raise ModelError(
                f"agent {definition.id!r} wants its requests sent to {base} "
                f"with the key in {variable or 'no variable'}, which the operator has not allowed",
                hint=f"add the pair ({base}, {variable}) to allowed_endpoints, or trust the project the file is in",
            )
        config = _endpoint(base, variable)
        wishes = _real(asked, definition.model, inherited, self._default_model)
        self._endpoints[config.name] = config
        name = self._alias(wishes[0]) if wishes else ""
        model = name.removeprefix("openai/") if name.startswith("openai/") else self._bare(name)
        return [_Place(config, model)] if model else []

    def _alias(self, name: str) -> str:
        for _ in range(_DEEPEST_ALIAS):
            found = self._aliases.get(name.casefold()) or self._aliases.get(names.normalised(name))
            if found is None or found == name:
                break
            name = found
        return name

    def _bare(self, name: str) -> str:
        name = self._alias(name)
        prefix, slash, rest = name.partition("/")
        return rest if slash and self._config(prefix) is not None else name

    def _config(self, name: str) -> ProviderConfig | None:
        """By name, or by another name of the same maker: `google` when only `gemini` is configured."""
        folded = name.casefold()
        by_name = {config.casefold(): value for config, value in self._configs.items()}
        if folded in by_name:
            return by_name[folded]
        same = next((group for group in names.MAKERS.values() if folded in group), ())
        return next((by_name[other] for other in same if other in by_name), None)

    def _nothing(self, definition: AgentDefinition, problems: Sequence[str]) -> ModelError:
        why = "; ".join(dict.fromkeys(problems)) or "no model is named, and there is no default_model"
        shown = [_shown(config, self._env) for config in self._configs.values()]
        return ModelError(
            f"no model for agent {definition.id!r}: {why}. Configured: {', '.join(shown) or 'no provider'}", hint=_HOW
        )

    def _model(self, config: ProviderConfig, model: str, agent: str) -> Model:
        key = (config.name, config.url, config.key_source, model, agent if config.format == "scripted" else None)
        if key not in self._models:
            self._models[key] = self._made(config, model, agent)
        return self._models[key]

    def _made(self, config: ProviderConfig, model: str, agent: str) -> Model:
        match config.format:
            case "scripted":
                return self._script(Path(config.base_url or model)).for_agent(agent, name=f"{config.name}/{model}")
            case "bridge":
                return self._bridge(config, model)
            case _:
                limit = self._limits.get(config.name)
                return WireModel(config, model, transport=self._transport, env=self._env, limit=limit)

    def _script(self, path: Path) -> "ScriptedModel":
        """One script for all agents, of which each has a view of its own: its rules tell them apart."""
        from retinue.models.scripted import ScriptedModel

        if path not in self._scripts:
            self._scripts[path] = ScriptedModel(path)
        return self._scripts[path]

    def _bridge(self, config: ProviderConfig, model: str) -> Model:
        from retinue.models.bridge import BridgeModel

        info = config.info(model)
        return BridgeModel(
            f"{config.name}:{model}",
            name=f"{config.name}/{model}",
            window=info.window or DEFAULT_WINDOW,
            max_output=info.max_output or DEFAULT_MAX_OUTPUT,
            base_url=config.base_url,
            # Without ours, the library looks for a variable of its own.
            api_key=None if isinstance(config.key, str) and config.key not in self._env else config.read_key(self._env),
            price=lambda usage: prices.cost(usage, info),
            limit=self._limits.get(config.name),
        )


class _Place(NamedTuple):
    config: ProviderConfig
    model: str
    note: str | None = None


def _real(*wishes: str | None) -> list[str]:
    return [wish for wish in wishes if wish and wish.casefold() != "inherit"]


def _own_name(config: ProviderConfig, name: str) -> str | None:
    """What the provider calls a model, or None when it can't have it."""
    if config.models:
        return _find(config.models, name)
    normal = names.normalised(name)
    maker, host = names.maker_of(normal), names.HOSTS.get(config.host)
    if host is not None and maker is not None and host != maker:
        return None
    is_display_name = " " in name or "(" in name
    return normal if is_display_name or (maker is not None and maker == (host or _speaks(config))) else name


def _speaks(config: ProviderConfig) -> names.Maker | None:
    """Whose models a provider of this format has, when the format says so."""
    return config.format if config.format in ("anthropic", "gemini") else None


def _find(table: Mapping[str, object], name: str) -> str | None:
    if name in table:
        return name
    normal = names.normalised(name)
    return next((key for key in table if names.normalised(key) == normal), None)


def _endpoint(base: str, variable: str) -> ProviderConfig:
    return ProviderConfig(name=host_of(base), format="openai-chat", base_url=base, key=variable or None)


def _pair(base: str, variable: str) -> tuple[str, str]:
    return base.rstrip("/").casefold(), variable


def _shown(config: ProviderConfig, env: Mapping[str, str]) -> str:
    models = ", ".join(config.models) or config.default_model or "any model"
    lost = isinstance(config.key, str) and not env.get(config.key)
    return f"{config.name} ({models}{f'; {config.key} is not set' if lost else ''})"
