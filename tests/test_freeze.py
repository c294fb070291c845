"""Answers stay what they were: a sample of the freeze, each with the digest of its bytes.

What changes an answer on purpose renews the sample with its reason: `python tests/freeze.py write FILE`, then `sample FILE`.
"""

import pytest
from conftest import truth
from freeze import frozen

ROWS = truth("frozen")


def test_the_sample_has_answers_and_refusals_of_every_kind():
    """Most rows are answered, some are refused, none crashes."""
    kinds = [row["frozen"][0] for row in ROWS]
    assert len(ROWS) > 150
    assert 10 < kinds.count("refused") < len(ROWS) / 2
    assert kinds.count("crashed") == 0


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_no_answer_changed(row):
    """The bytes of an answer, or that it is refused; words may change."""
    assert frozen(row["job"], fake=row["fake"])[0] == row["frozen"][0]
