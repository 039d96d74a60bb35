"""Tests of the viewer; those that need a browser start Debian's Chromium without a window."""
