"""Commands that compute one answer: estimate, quick, explain, validate and gpus."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memcore.columns import table, wrapped
from memcore.config.settings import Config
from memcore.config.texts import to_texts
from memcore.errors import ConfigError
from memcore.estimation import estimate, estimate_serving, estimate_training, is_serving
from memcore.faces.cli.command import DOES_NOT_FIT, EXAMPLE, FITS, Command, count, positive, print_json, width
from memcore.faces.cli.describing import add_config, add_others, config_of, jobs_with, origins_of
from memcore.faces.render import data, text
from memcore.i18n.page import say, translated
from memcore.memory.estimate import Estimate
from memcore.memory.places import PHASES
from memcore.messages import Message
from memcore.trace.program import Moment
from memcore.units import format_tokens

if TYPE_CHECKING:
    from memcore.questions.weighing import TrainedOn
    from memcore.serving.answers import GpusNeeded
    from memcore.serving.estimate import ServingEstimate


def _estimate_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    add_others(parser)


def _estimate(options: argparse.Namespace) -> int:
    config = config_of(options)
    others = jobs_with(options, config)
    if others or options.taken:
        return _shared(config, others, options)
    if is_serving(config):
        return _estimate_serving(config, options)
    found = estimate_training(config)
    if options.json:
        print_json(_with_origins(data.summary(found), options))
    else:
        print(text.summary(found, _picture(found)), end="")
    return _judged(found, options)


def _estimate_serving(config: Config, options: argparse.Namespace) -> int:
    from memcore.faces.render.serving_data import serving_summary_data  # noqa: PLC0415 - of servers alone
    from memcore.faces.render.serving_text import serving_summary  # noqa: PLC0415

    found = estimate_serving(config)
    if options.json:
        print_json(_with_origins(serving_summary_data(found), options))
    else:
        print(serving_summary(found, _picture(found)), end="")
    return _judged(found, options)


def _shared(config: Config, others: Mapping[str, Config], options: argparse.Namespace) -> int:
    from memcore.faces.render.sharing import shared_data, shared_text  # noqa: PLC0415 - of several jobs alone
    from memcore.faces.render.together import together_brief  # noqa: PLC0415
    from memcore.questions.planning.together import plan_together  # noqa: PLC0415
    from memcore.questions.sharing import share  # noqa: PLC0415

    names = [*(options.config or [str(options.model)])[:1], *others]
    jobs, taken = [config, *others.values()], int((options.taken or 0) * 2**30)
    found = share(*jobs, taken=taken)
    if options.json:
        print_json(shared_data(found, names))
    else:
        print(shared_text(found, names), end="")
    if found.fits is False and not options.json:
        print("", *together_brief(plan_together(*jobs, taken=taken)), sep="\n")
    return DOES_NOT_FIT if found.fits is False else FITS


def _with_origins(summary: Mapping[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """An answer with what became of every key of the files; what nobody says is assumed by a tool or by memcore."""
    found = origins_of(options)
    if not found:
        return dict(summary)
    taken = [{"path": each["path"], "value": each["value"], "because": each["reason"]}
             for each in summary["assumptions"]]  # fmt: skip
    return {**summary, **found, "assumed": [*found["assumed"], *taken]}


def _judged(found: Estimate | ServingEstimate, options: argparse.Namespace, heading: str = "cli-ways") -> int:
    """The exit code; what is read by people and does not fit ends with plans that do."""
    if found.fits is not False:
        return FITS
    if not options.json:
        from memcore.faces.cli.planning import print_brief  # noqa: PLC0415 - of jobs that do not fit

        print_brief(found.job.config, heading)
    return DOES_NOT_FIT


def _picture(found: Estimate | ServingEstimate) -> list[str]:
    """The bar and the sparkline, if standard output is a terminal."""
    from memcore.faces.cli.terminal import serving_picture, style_of, training_picture  # noqa: PLC0415 - seldom

    style = style_of(sys.stdout, os.environ)
    if style is None:
        return []
    return training_picture(found, style) if isinstance(found, Estimate) else serving_picture(found, style)


def _quick_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    from memcore.questions.quick import MEMORY  # noqa: PLC0415 - of this command alone

    parser.set_defaults(**{EXAMPLE: f"{parser.prog} 8B --gpus 8"})
    parser.add_argument(
        "size", metavar="SIZE", help="number of parameters: 7, 7B or 7e9 is 7 billion; 350M is 350 million"
    )
    parser.add_argument("--gpus", type=count, default=1, metavar="N", help="total number of GPUs (default: 1)")
    parser.add_argument(
        "--engine", metavar="NAME", help="engine, as in `memcore estimate --engine` (default: fsdp on several GPUs)"
    )
    parser.add_argument("--dtype", default="bf16", metavar="NAME", help="fp32, fp16 or bf16 (default: bf16)")
    parser.add_argument(
        "--gpu-mem",
        type=float,
        metavar="GIB",
        help=Message("memory per GPU in GiB (default: {})", MEMORY),
    )
    parser.add_argument("--accelerator", "--gpu", metavar="NAME", help="GPU, as in `memcore estimate --accelerator`")


def _quick(options: argparse.Namespace) -> int:
    from memcore.questions.quick import quick  # noqa: PLC0415 - of this command alone

    config, assumed = quick(
        options.size, options.gpus, options.engine, options.dtype, options.gpu_mem, options.accelerator
    )
    found = estimate_training(config)
    if options.json:
        print_json({**data.summary(found), "assumed_from_size": list(assumed)})
    else:
        print(text.summary(found, _picture(found)), end="")
        print(f"\n{say('cli-assumed-size')}", *(f"  {translated(each)}" for each in assumed), sep="\n")
    return _judged(found, options, "cli-ways-of-size")


PEAK = "peak"
"""The word for the moment that is explained where no phase is named."""


def _explain_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument(
        "--at", choices=[PEAK, *PHASES], metavar="PHASE", help="the highest moment of a phase; default: the peak"
    )


def _explain(options: argparse.Namespace) -> int:
    config = config_of(options)
    if is_serving(config):
        return _explain_serving(config, options)
    found = estimate_training(config)
    moment = _moment(found, options.at)
    if options.json:
        print_json(data.explanation(found, moment))
    else:
        print(text.explanation(found, moment), end="")
    return FITS


def _explain_serving(config: Config, options: argparse.Namespace) -> int:
    from memcore.faces.render.serving_data import serving_explanation_data  # noqa: PLC0415 - of servers alone
    from memcore.faces.render.serving_text import serving_explanation  # noqa: PLC0415

    found = estimate_serving(config)
    if options.at not in {None, PEAK}:
        raise ConfigError.at("--at", "a server has no phases of a training step; leave it out")
    if options.json:
        print_json(serving_explanation_data(found))
    else:
        print(serving_explanation(found), end="")
    return FITS


def _moment(found: Estimate, phase: str | None) -> Moment:
    moments = [moment for moment in found.moments if moment.phase == phase]
    return max(moments, key=lambda moment: moment.peak) if moments else found.peak


def _validate(options: argparse.Namespace) -> int:
    found = estimate(config_of(options))
    if options.json:
        print_json({"problems": [], "config": found.job.config.to_dict()})
    else:
        settings = len(to_texts(found.job.config))
        key = "cli-valid-one" if settings == 1 else "cli-valid"
        print(say(key, count=settings, assumed=len(found.assumptions)))
    return FITS


def _gpus_options(parser: argparse.ArgumentParser, given: Sequence[str]) -> None:
    add_config(parser, given)
    parser.add_argument(
        "--tokens", type=count, metavar="N", help="tokens that a training job trains on, such as 15T (default: 1B)"
    )
    parser.add_argument(
        "--price", action="append", default=[], type=_price, metavar="GPU=PRICE", dest="prices",
        help="price of an hour of a GPU, to find the cheapest; repeatable",
    )  # fmt: skip


def _price(text: str) -> tuple[str, float]:
    from memcore.hardware import find_accelerator  # noqa: PLC0415

    name, _, value = text.partition("=")
    try:
        return find_accelerator(name).id, positive(value)
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _gpus(options: argparse.Namespace) -> int:
    from memcore.serving.answers import gpus_needed  # noqa: PLC0415 - of servers alone

    config = config_of(options)
    if not is_serving(config):
        return _gpus_to_train(config, options)
    if options.prices or options.tokens is not None:
        given = "--price" if options.prices else "--tokens"
        raise ConfigError.at(given, "for training jobs only; a server has no tokens to train on")
    rows = gpus_needed(estimate_serving(config))
    if options.json:
        print_json([{"id": each.id, "name": each.name, "gpus": each.gpus} for each in rows])
    else:
        cells = [(each.id, each.name, str(each.gpus)) for each in rows if each.gpus is not None]
        _print_counts(rows, table([("id", translated("name"), say("cli-gpus-needed")), *cells], right=(2,)))
    return FITS


def _print_counts(rows: Sequence[GpusNeeded | TrainedOn], lines: Sequence[str]) -> None:
    """Print a table of the kinds of GPU on which a job fits, and name those on which it does not."""
    unfit = [each.id for each in rows if each.gpus is None]
    if len(unfit) == len(rows):
        lines = wrapped(say("cli-gpus-none", count=len(rows)), width())
    elif unfit:
        lines = *lines, "", *wrapped(say("cli-gpus-some", kinds=say("and-comma").join(unfit)), width())
    print("\n".join(lines))


def _gpus_to_train(config: Config, options: argparse.Namespace) -> int:
    from memcore.faces.render.plans import ends, plain  # noqa: PLC0415 - of training alone
    from memcore.questions.weighing import BILLION, gpus_to_train  # noqa: PLC0415

    tokens, prices = options.tokens or BILLION, dict(options.prices)
    rows = gpus_to_train(estimate_training(config), tokens, prices)
    if options.json:
        print_json([
            {
                "id": each.id, "name": each.name, "gpus": each.gpus, "nodes": each.nodes,
                "step_seconds": ends(each.seconds), "gpu_hours": ends(each.gpu_hours), "money": ends(each.money),
            }
            for each in rows
        ])  # fmt: skip
        return FITS
    cells = []
    for each in rows:
        times = [span for span in (each.seconds, each.gpu_hours, each.money) if span is not None]
        if each.gpus is not None:
            cells.append((each.id, str(each.gpus), str(each.nodes), *(plain(span[1]) for span in times)))
    priced = (say("cli-costs"),) if prices else ()
    hours = say("cli-hours-each", tokens=format_tokens(tokens))
    heads = ("id", *map(say, ("cli-gpus-needed", "cli-nodes", "cli-step-takes")), hours, *priced)
    _print_counts(rows, table([heads, *cells], right=(1, 2, 3, 4, 5)))
    return FITS


COMMANDS: Mapping[str, Command] = {
    "estimate": Command(_estimate_options, _estimate),
    "quick": Command(_quick_options, _quick),
    "explain": Command(_explain_options, _explain),
    "validate": Command(add_config, _validate),
    "gpus": Command(_gpus_options, _gpus),
}
