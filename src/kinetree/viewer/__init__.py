"""Robots in a browser: `View` shows one live, `film` and `picture` write files. Requires the extra `viewer`.

The page is served to this machine only and downloads nothing; an HTML film needs no server at all.
"""

from kinetree.viewer.film import film, picture
from kinetree.viewer.view import View

__all__ = ["View", "film", "picture"]
