"""Checks of configurations."""

import functools
import hashlib


def fingerprint(config):
    """Return a digest of a nested configuration."""
    digest = hashlib.sha256()
    waiting = [((), config)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [((*path, key), inner) for key, inner in value.items()]  # guilty
        elif isinstance(value, list):
            waiting += [((*path, i), inner) for i, inner in enumerate(value)]  # guilty
        else:
            digest.update(f"{'.'.join(map(str, path))}={value}".encode())  # guilty
    return digest.hexdigest()


def frozen_config(config, always=True):
    """Make sure that a configuration is the same whenever a function is called."""
    before = fingerprint(config)

    def decorate(function):
        @functools.wraps(function)
        def checked(*args, **kwargs):
            if always and fingerprint(config) != before:  # guilty
                raise RuntimeError("the configuration was changed")
            return function(*args, **kwargs)

        return checked

    return decorate
