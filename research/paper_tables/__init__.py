"""The tables of the paper, from nothing to filled tables: `python -m research.paper_tables --help`.

Tables, rows and data sets are data: `tables/`, `rows/`, `datasets/`, `families/`. `definitions` reads them, `engine`
walks through the steps: train (`train_models`), predict (`predict_models`), time (`measure_models`), score
(`score_predictions`), and present (`table_lines`, `filled_table`, `table_notes`, `ranking`, `present`, `qualitative`).
"""
