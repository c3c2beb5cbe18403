"""Flags made from the pydantic option models, so that an option is written down in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from cyclopts import Parameter
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mien.errors import OptionsError

_F = TypeVar("_F", bound=Callable[..., int])

Debug = Annotated[bool, Parameter(help="Show the traceback of a failure.", show_default=False)]
"""The flag that every command has; `main` reads it."""
Json = Annotated[bool, Parameter(help="Print JSON.", show_default=False)]
"""The flag of commands that print for people or for programs."""


def flag(name: str) -> str:
    """The flag of an option: `min_face` is `--min-face`."""
    return "--" + name.replace("_", "-")


def options_from(model: type[BaseModel]) -> Callable[[_F], _F]:
    """Replace a command's `**options` by one flag for each field of the model."""

    def decorate(command: _F) -> _F:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        generated = [_parameter(name, field) for name, field in model.model_fields.items()]
        command.__annotations__ = {
            **{name: value for name, value in command.__annotations__.items() if name != "options"},
            **{p.name: p.annotation for p in generated},
        }
        command.__signature__ = signature.replace(parameters=[*own, *generated])  # type: ignore[attr-defined]
        return command

    return decorate


def check(model: type[BaseModel], options: dict[str, Any]) -> None:
    """Refuse values outside their limits, before anything heavy is imported.

    Raises:
        OptionsError: names the flag, the value and the limit.
    """
    try:
        model(**options)
    except ValidationError as error:
        first = error.errors()[0]
        message = first["msg"][:1].lower() + first["msg"][1:]
        raise OptionsError(f"{flag(str(first['loc'][0]))} {first['input']}: {message}") from error


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    text = f"{field.description} [{limits(field)}]" if limits(field) else field.description
    described = Parameter(help=text, group="Options")
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[field.annotation, described]
    )


def limits(field: FieldInfo) -> str:
    """The range of a number in words; empty where there is none."""
    low = next((limit.ge for limit in field.metadata if hasattr(limit, "ge")), None)
    high = next((limit.le for limit in field.metadata if hasattr(limit, "le")), None)
    return "" if low is None or high is None else f"{low} to {high}"
