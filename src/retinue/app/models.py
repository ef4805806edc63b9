"""The models that the settings and the environment name."""

from collections.abc import Iterator, Mapping
from typing import get_args

from retinue.app.settings import ModelSettings, ProviderSettings, Settings, secret_name
from retinue.models.formats import FormatName
from retinue.models.known import ModelInfo
from retinue.models.provider import ProviderConfig, from_environment
from retinue.models.resolve import ProviderModels
from retinue.schema.errors import SettingsError


def models_of(settings: Settings, environ: Mapping[str, str]) -> ProviderModels:
    """Configured providers first; those of the environment where no configured one has the name."""
    configured = {config.name: config for config in _configured(settings)}
    found = {config.name: config for config in from_environment(environ)}
    return ProviderModels(
        list({**found, **configured}.values()),
        aliases=settings.model_aliases,
        default_model=settings.default_model,
        env=environ,
        allowed_endpoints=[
            (e.base_url or "", e.api_key_env_var or "") for file in settings.trusted for e in file.endpoints
        ],
    )


def _configured(settings: Settings) -> Iterator[ProviderConfig]:
    for name, provider in settings.providers.items():
        yield ProviderConfig(
            name=name,
            format=_format(name, provider),
            base_url=provider.base_url,
            key=_key(name, provider),
            headers=provider.headers,
            models={model: _info(info) for model, info in provider.models.items()},
            default_model=provider.default_model,
            mapping=provider.mapping,
            concurrency=provider.limits.concurrency,
            idle_timeout=provider.limits.timeout or 300.0,
        )


def _format(name: str, provider: ProviderSettings) -> FormatName:
    known: dict[str, FormatName] = {f: f for f in get_args(FormatName)}
    if provider.format not in known:
        raise SettingsError(
            f"provider {name}: {provider.format!r} is not a format", hint=f"use one of {', '.join(known)}"
        )
    return known[provider.format]


def _key(name: str, provider: ProviderSettings) -> str | None:
    if provider.key is None:
        return None
    variable = secret_name(provider.key)
    if variable is None:
        raise SettingsError(f"provider {name}: a key is written as env(NAME), never as itself")
    return variable


def _info(model: ModelSettings) -> ModelInfo:
    price = model.price
    return ModelInfo(
        window=model.window,
        max_output=model.max_output,
        price_in=price.input if price else None,
        price_out=price.output if price else None,
        price_cache_read=price.cache_read if price else None,
        price_cache_write=price.cache_write if price else None,
    )
