"""Robots in a browser: `View` shows one live, `film` writes a motion as one HTML file. Needs the extra `viewer`.

The page is served to this machine only, it fetches nothing, and a film needs no server at all.
"""

from kinetree.viewer.film import film
from kinetree.viewer.view import View

__all__ = ["View", "film"]
