"""Servers: a folder for each program that serves models; `memcore.registry` names them."""
