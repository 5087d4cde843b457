"""Figures and pictures of outcomes, as one HTML page that needs no network; needs PyArrow (`dwell[spark]` brings it).

`outcome_file.py` finds the rows, `figures.py` sums them up, `svg.py` and `chart.py` draw, `page.py` makes the page.
"""
