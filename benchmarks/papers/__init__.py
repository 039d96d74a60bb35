"""Cost tables of papers, reproduced: operations are counted and set beside what is published.

python -m benchmarks.papers wensing_2012            # tables, and which published relations hold
python -m benchmarks.papers jain_rodriguez_1993 --json
python -m benchmarks.papers wensing_2012 --plot operations.png
python -m benchmarks.papers carpentier_2018         # errors as printed and as corrected
"""
