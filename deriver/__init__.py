"""Derives from transformers what every `model_type` is made of, and writes it to `memcore/data/derived.json`.

.venv-validation/bin/python -m deriver TYPE ...      derive these, or all without a row by hand
.venv-validation/bin/python -m deriver.measure       how memcore reads every model_type, against the real network
"""
