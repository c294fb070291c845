"""Switch Transformers' own files: how far apart their sparse layers are, which two keys say.

Source: transformers 5.23, configuration_switch_transformers.py (`__post_init__`, whose last line takes the file's
`encoder_sparse_step`) and modeling_switch_transformers.py (`SwitchTransformersStack.__init__`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from memcore.messages import Message

Config = Mapping[str, object]
_STACKS = (
    ("num_layers", "num_sparse_encoder_layers", "encoder_sparse_step"),
    ("num_decoder_layers", "num_sparse_decoder_layers", "decoder_sparse_step"),
)


def stepped(config: Config) -> Config:
    """Return the number of sparse layers from which the file's step follows; more than there are layers means none."""
    found = dict(config)
    for layers, sparse, step in _STACKS:
        many, apart = config.get(layers), config.get(step)
        if type(many) is int and type(apart) is int and many > 0 <= apart:
            found[sparse] = many // apart if apart else many + 1
    return found


def contradicted(config: Config) -> Iterator[Message]:
    """What a file says of sparse layers and what its steps make of it, where these differ (Switch-C, Switch-XXL)."""
    for layers, sparse, step in _STACKS:
        many, said, apart = (config.get(key) for key in (layers, sparse, step))
        if type(many) is not int or type(said) is not int or type(apart) is not int:
            continue
        made = sum(i % apart == 1 or apart == 1 for i in range(many)) if apart > 0 else 0
        if made != said:
            text = "{} says {}, but {} makes {} layers sparse, as transformers does; published weights may have others"
            yield Message(text, sparse, said, step, made)
