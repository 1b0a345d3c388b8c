"""The frameworks that Stepscope knows: ``sources`` has what records one, ``reading`` the rest."""
