"""Trainers: a folder for each library that runs a step of training; `memcore.registry` names them."""
