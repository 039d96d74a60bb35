"""Robots in a browser: `View` shows one live, `film` writes a motion as an HTML file. Requires the extra `viewer`.

The page is served to this machine only and downloads nothing; a film needs no server at all.
"""

from kinetree.viewer.film import film
from kinetree.viewer.view import View

__all__ = ["View", "film"]
