"""How much of anything is taken: every limit, and why it stands where it does.

What is beyond a limit is refused with the key and the limit, before any work is done on it. A limit stands well above
what is real and well below what costs seconds or memory: what is large but real is answered, and fast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from memcore.messages import Message

# Texts and files

FILE_BYTES = 2**24
"""Of a file. The longest that people have are indices of checkpoints with many experts, of about ten million bytes. Of
a log no more is looked at."""
CONFIG_LENGTH = 2**20
"""Characters of a text that describes a job or a model. Real ones have less than a tenth of it."""
LOG_LENGTH, LINE_LENGTH = 2**22, 1500
"""Characters of a log, and of one of its lines, that are read; what comes after them is cut off, and it is said."""
LINK_LENGTH = 2**16
"""Characters of a link: browsers and messengers cut longer ones."""
INFLATED_BYTES = CONFIG_LENGTH
"""That the deflated model of a link may grow to: it is the text of a config.json."""
VALUES = 2**18
"""Values of a config with all that is nested in it: more than so long a text can hold, or nearly."""
VARIABLES_LENGTH = CONFIG_LENGTH
"""Characters that the variables of a script may give together; one that doubles another would never end."""
NESTING = 64
"""Brackets, blocks or tables inside each other. Readers recurse, and in a browser a deep text would end Python itself;
real files have less than ten."""
TEXT_LENGTH = 200
"""Characters of a setting that memory does not depend on, such as a framework's version."""
NAME_LENGTH = 80
"""Characters of one name of a list, such as a module's."""
LIST_LENGTH = 2**12
"""Items of a list of settings, such as layers of each stage: no more than there are layers."""
LAYOUT_LENGTH = 2000
"""Characters of a pipeline's layout as Megatron-LM writes it; the longest published ones have less than 200."""
LAYOUT_PARTS = 2**15
"""Signs of that layout when its factors are multiplied out: a layer or an edge of a stage each. `t*999999999` is ten
characters, and a list of gigabytes; Megatron-LM itself multiplies it out."""

# Numbers

INTEGER = 2**53
"""Of a whole number for which nothing below says less: what JSON readers, JavaScript and floats agree on exactly."""
INTEGER_DIGITS = 300
"""Digits of a whole number that is read at all: it can still be a float, and so be compared and written (10^308 is the
largest). Python itself refuses more than 4,300 digits, in words of its own, which take time in their square."""

# What a job has

LAYERS = 2**12
"""That a setting counts or lists."""
DEEPEST = 2**11
"""Layers of a model. They are read one by one, and the allocator is replayed over them in up to two milliseconds each;
the deepest that are used have some hundreds, experiments with depth a thousand."""
DIFFERENT = 384
"""Layers of a model that no pattern repeats: each is recorded on its own, in some milliseconds. Published models in
which every layer may be another have less than 200."""
STAGES = LAYERS
"""Of a pipeline, and chunks of one of its stages: each has a layer at least."""
EXPERTS = 2**14
"""Routed experts of a layer: the most in a published model are 2,048."""
FURTHER = 5
"""Further tokens that layers predict, each with layers of its own, recorded one by one: published models have up to
three."""
CHUNKS = 2**10
"""Of a loss whose logits come chunk by chunk, each recorded on its own: LitGPT's of 128 tokens make as many of
131,072."""
STREAMS = 64
"""Parallel residual streams (`altup_num_inputs`): published models have four."""
VOCABULARY = 2**26
"""Words: the largest vocabulary of a published model has a million, tables of recommenders have tens of millions."""
GPUS = 2**20
"""Of a job: several times as many as the largest cluster has."""
MICRO_BATCHES = 2**15
"""In a step of one rank. Batches that still train well have some 10^4 sequences on all ranks together."""
SEQUENCES = 2**24
"""In a micro-batch, or of a server at once: its users."""
TOKENS = 2**30
"""In a sequence, or in a server's step: the longest contexts are a hundred million. A batch has at most SEQUENCES times
as many, for which all arithmetic is exact."""
PIXELS = 2**16
"""Along one side of an image."""
IMAGES = 2**20
"""In a sequence."""

BY_UNIT: Mapping[str, int] = MappingProxyType(
    {
        "tokens": TOKENS,
        "sequences": SEQUENCES,
        "micro-batches": MICRO_BATCHES,
        "GPUs": GPUS,
        "stages": STAGES,
        "chunks": STAGES,
        "layers": LAYERS,
        "pixels": PIXELS,
        "images": IMAGES,
    }
)
"""The largest value of a setting, by its unit; of all others it is INTEGER."""
OF_MODEL: Mapping[str, int] = MappingProxyType(
    {
        "mtp_num_layers": FURTHER,
        "nextn_predict_layers": FURTHER,
        "layers": DEEPEST,
        "n_layer": DEEPEST,
        "depth": DEEPEST,
        "depths": DEEPEST,
        "experts": EXPERTS,
        "vocab_size": VOCABULARY,
        "altup_num_inputs": STREAMS,
        "max_position_embeddings": TOKENS,
    }
)
"""The largest value of a model's key, by how its canonical name ends; of all others it is INTEGER."""


def of_model(name: str) -> int:
    """The largest value of a model's key.

    >>> of_model("num_hidden_layers"), of_model("max_position_embeddings"), of_model("hidden_size")
    (2048, 1073741824, 9007199254740992)
    """
    return next((most for ending, most in OF_MODEL.items() if name.endswith(ending)), INTEGER)


def whole(text: str) -> int:
    """The integer that a text of digits stands for.

    >>> whole("128")
    128

    Raises ValueError, saying so, if it has more digits than are read.
    """
    digits = len(text.strip().lstrip("+-"))
    if digits > INTEGER_DIGITS:
        raise ValueError(Message("expected a number of at most {} digits, found {}", INTEGER_DIGITS, digits))
    return int(text)


def few(items: Sequence[object]) -> None:
    """Raises ValueError where a list is longer than any real one."""
    if len(items) > LIST_LENGTH:
        raise ValueError(Message("expected a list of at most {} items, found {}", LIST_LENGTH, len(items)))
