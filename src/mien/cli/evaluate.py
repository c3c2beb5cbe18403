"""`mien eval`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from mien.cli.files import print_json
from mien.cli.flags import Debug, Json, check, flag, options_from
from mien.cli.progress import bar
from mien.errors import OptionsError
from mien.evaluate.options import EvalOptions
from mien.evaluate.protocols.options import ProtocolOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

    from mien.evaluate import EvalReport


class Flags(EvalOptions, ProtocolOptions):
    """All options of the command: those of an evaluation and those of a protocol."""


@options_from(Flags)
def evaluate(
    folder: Annotated[Path | None, Parameter(help="Your copy of a protocol's set.", show_default=False)] = None,
    /,
    *,
    data: Annotated[Path | None, Parameter(help="Folder of photos, named by person.", show_default=False)] = None,
    output: Annotated[
        Path | None,
        Parameter(name=("--output", "-o"), help="Folder of the report; made if need be.", show_default=False),
    ] = None,
    people: Annotated[Path | None, Parameter(help="CSV table of the people.", show_default=False)] = None,
    evaluator: Annotated[
        list[str] | None,
        Parameter(help="Further judge of identity: ONNX file or name of an embedder; repeatable.", show_default=False),
    ] = None,
    naturalness: Annotated[Path | None, Parameter(help="ONNX classifier of swapped faces.", show_default=False)] = None,
    compare: Annotated[
        Path | None, Parameter(help="Earlier report.json to compare with, pair by pair.", show_default=False)
    ] = None,
    protocol: Annotated[
        str | None, Parameter(help="Run a public protocol on FOLDER instead.", show_default=False)
    ] = None,
    save_outputs: Annotated[bool, Parameter(help="Write each output picture too.", show_default=False)] = False,
    json: Json = False,
    quiet: Annotated[bool, Parameter(help="Draw no progress.", show_default=False)] = False,
    debug: Debug = False,
    **options: Any,
) -> int:
    """Tell how good swaps are: identity, expression, seams, colour, naturalness, with intervals and pictures.

    People of --data are swapped onto each other, and the report goes to --output. Without --data, the report that lies
    in --output is compared with that of --compare. With --protocol, models are tested on a public set instead.
    """
    check(Flags, options)
    if protocol is not None:
        _refuse({"--data": data, "--people": people, "--evaluator": evaluator, "--compare": compare,
                 "--naturalness": naturalness, "--output": output, "--save-outputs": save_outputs or None})  # fmt: skip
        return _protocol(protocol, folder, _only(ProtocolOptions, options, "--protocol"), quiet=quiet, json=json)
    if folder is not None:
        raise OptionsError(f"{folder}: a folder goes with --protocol; photos to swap go with --data")
    if output is None:
        raise OptionsError("--output is missing; name a folder for the report")
    chosen = _only(EvalOptions, options, "an evaluation")
    from mien.evaluate import EvalReport
    from mien.evaluate import evaluate as run

    earlier = None if compare is None else EvalReport.load(compare)
    if data is None:
        if earlier is None:
            raise OptionsError("--data is missing; pass a folder of photos, or --compare to compare two reports")
        report = EvalReport.load(output / "report.json")
        print("\n".join(_comparison(report, earlier)))
        return 0
    with bar(quiet=quiet) as progress:
        report = run(
            data,
            people=people,
            evaluators=[Path(each) if each.lower().endswith(".onnx") else each for each in evaluator or []],
            naturalness=naturalness,
            output=output,
            against=earlier,
            save_outputs=save_outputs,
            progress=progress,
            **chosen,
        )
    if json:
        print_json(report.to_dict())
        return 0
    from mien.evaluate.tables import lines

    print("\n".join(lines(report)))
    if earlier is not None:
        print("\n".join(_comparison(report, earlier)))
    print(f"{output}: report.md, report.json and sheets, {report.seconds:.0f} s")
    return 0


def _protocol(name: str, folder: Path | None, options: dict[str, Any], *, quiet: bool, json: bool) -> int:
    """Run a public protocol and print what it gives."""
    from mien.evaluate.protocols import PROTOCOLS, run
    from mien.evaluate.run import Teller

    if folder is None:
        raise OptionsError(f"--protocol {name}: name the folder of your copy; protocols are {', '.join(PROTOCOLS)}")
    with bar(quiet=quiet) as progress:
        tell = Teller(progress).parts(name)
        report = run(name, folder, ProtocolOptions(**options), progress=tell)
    if json:
        print_json(report.to_dict())
    else:
        print("\n".join(report.lines()))
    return 0


def _comparison(report: EvalReport, earlier: EvalReport) -> list[str]:
    from mien.evaluate import compare
    from mien.evaluate.tables import comparison

    return comparison(compare(report, earlier)).splitlines()


def _refuse(given: dict[str, object]) -> None:
    name = next((name for name, value in given.items() if value is not None), None)
    if name is not None:
        raise OptionsError(f"{name} does not go with --protocol, which prints its report; leave it out")


def _only(model: type[BaseModel], options: dict[str, Any], what: str) -> dict[str, Any]:
    """Those options that a model has.

    Raises:
        OptionsError: another one was set.
    """
    for name, value in options.items():
        if name not in model.model_fields and value != Flags.model_fields[name].default:
            raise OptionsError(f"{flag(name)} does not go with {what}; leave it out")
    return {name: value for name, value in options.items() if name in model.model_fields}
