"""What plans assume where a job leaves it open: the global batch of pre-training, the length of sequences served."""

from __future__ import annotations

from dataclasses import replace

from memcore.config.settings import Config
from memcore.config.training import Training
from memcore.errors import ConfigError
from memcore.messages import Message
from memcore.questions.planning.divisions import Asked
from memcore.serving.estimate import ServingEstimate
from memcore.serving.inference import CHAT, LENGTHS, Inference

_USUAL = ((10**9, 2**19), (3 * 10**9, 2**20), (20 * 10**9, 2**21))
"""Parameters, and tokens of a step usual below them: GPT-3's from 0.76B to 13B (arXiv 2005.14165, table 2.1)."""
_LARGEST = 2**22
"""Tokens of a step of larger models (Llama 2, arXiv 2307.09288, section 2.2)."""


def with_usual_batch(asked: Asked, parameters: int) -> tuple[Asked, str | None]:
    """Return a job with a usual global batch, and what was assumed; the job itself if it says anything of its batch.

    Every GPU has at least one sequence, and all have the same number.
    """
    config = asked.config
    if any(config.get(each) for each in (Training.micro_batch_size, Training.gradient_accumulation_steps)):
        return asked, None
    found = _of_tokens(asked, next((tokens for below, tokens in _USUAL if parameters < below), _LARGEST))
    assumed = "a global batch of {:,} tokens, usual for a model of this size; set it with --batch-tokens"
    return found, Message(assumed, found.sequences * found.length)


def with_batch(asked: Asked, tokens: int) -> tuple[Asked, str | None]:
    """Return a job with `tokens` tokens in a step, and what was assumed where they are no whole sequences on every GPU.

    Raises:
        ConfigError: If the job says how many micro-batches a step has.
    """
    accumulated = Training.gradient_accumulation_steps
    if asked.config.get(accumulated):
        raise ConfigError.at(accumulated, "found {}; leave it out, or --batch-tokens", asked.config[accumulated])
    found = _of_tokens(asked, tokens)
    step = found.sequences * found.length
    said = "a global batch of {:,} tokens: the same number of whole sequences on every GPU"
    return found, None if step == tokens else Message(said, step)


def _of_tokens(asked: Asked, tokens: int) -> Asked:
    sequences = max(round(tokens / (asked.length * asked.gpus)), 1) * asked.gpus
    return replace(asked, sequences=sequences)


def with_usual_length(config: Config, found: ServingEstimate) -> Config:
    """Return a server with sequences of a usual length; the server itself if it says one, or allows none longer."""
    if any(config.get(each) for each in LENGTHS) or found.job.basics.max_model_len <= CHAT:
        return config
    return config.changed({Inference.max_model_len: CHAT})
