"""Fuzzers: random jobs, models, files, logs and links, and what must hold for every one of them.

    python build.py fuzz 10              ten minutes on all cores, with new seeds
    python -m fuzzing 10 --seed 7        the same inputs again

corpus, values     what is varied: published configs, the tests' texts; right, extreme and wrong values of each kind
jobs, texts        random inputs: structures from the schema, and texts with mistakes in them
answers, faces, pairs, pages     what must hold: of an estimate, of each way to show it, of two jobs, of a visit
targets            each kind of input with what is checked
worker, runner     a process with limits on time and memory, and who feeds it
shrinking          the smallest input that still fails
"""
