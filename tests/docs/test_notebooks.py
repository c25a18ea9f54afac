"""Scripts in percent format: how they are cut into cells, run and rendered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import notebooks
from notebooks import Cell


def outcomes(tmp_path: Path, text: str) -> list[notebooks.Outcome]:
    script = tmp_path / "script.py"
    script.write_text(text, encoding="utf-8")
    return notebooks.execute(script, tmp_path)


def test_a_mark_begins_a_cell():
    found = notebooks.cells("x = 1\n\n# %% [markdown]\n# # Title\n#\n# text\n\n# %% named\ny = 2\n\n# %%\n# !ls\n")
    assert found == [
        Cell("code", "x = 1"),
        Cell("text", "# Title\n\ntext", line=4),
        Cell("code", "y = 2", "named", 9),
        Cell("shell", "ls", line=12),
    ]


def test_a_comment_in_code_is_no_mark():
    assert [cell.source for cell in notebooks.cells("x = 1\n# %%%\ny = 2  # %% z")] == ["x = 1\n# %%%\ny = 2  # %% z"]


def test_the_last_expression_is_shown_after_what_was_printed(tmp_path: Path):
    (found,) = outcomes(tmp_path, "print('first')\n1 + 1")
    assert found.printed == "first\n2"


def test_none_is_not_shown(tmp_path: Path):
    (found,) = outcomes(tmp_path, "print('only')")
    assert found.printed == "only"


def test_cells_share_their_names(tmp_path: Path):
    assert outcomes(tmp_path, "x = 3\n# %%\nx + 1")[1].printed == "4"


def test_a_figure_is_kept_with_its_cell_and_what_draws_is_not_shown(tmp_path: Path):
    drawn, after = outcomes(tmp_path, "from matplotlib import pyplot\npyplot.plot([1, 2])\n# %%\n1")
    assert [figure[:4] for figure in drawn.figures] == [b"\x89PNG"]
    assert (drawn.printed, after.figures) == ("", ())


def test_a_figure_that_is_a_value_is_shown_once(tmp_path: Path):
    script = tmp_path / "t.py"
    script.write_text("# %%\nfrom matplotlib import figure, pyplot\nfigure.Figure()\n# %%\npyplot.figure()\n")
    outcomes = notebooks.execute(script, tmp_path)
    assert [(outcome.printed, len(outcome.figures)) for outcome in outcomes] == [("", 1), ("", 1)]


def test_a_command_is_shown_with_what_it_prints(tmp_path: Path):
    (found,) = outcomes(tmp_path, "# !echo one\n# !echo two")
    assert found.printed == "$ echo one\none\n$ echo two\ntwo"


def test_a_cell_named_like_a_file_is_written_and_not_run(tmp_path: Path):
    (found,) = outcomes(tmp_path, "# %% mine.py\nraise ValueError\n")
    assert (tmp_path / "mine.py").read_text() == "raise ValueError\n"
    assert found.printed == ""


def test_a_cell_that_fails_is_named_by_its_line(tmp_path: Path):
    with pytest.raises(notebooks.CellError, match=r"script.py, the cell at line 3: KeyError: 'a'"):
        outcomes(tmp_path, "x = {}\n# %%\nx['a']")


def test_a_command_that_fails_is_named(tmp_path: Path):
    with pytest.raises(notebooks.CellError, match=r"the cell at line 1: `false` ended with 1"):
        outcomes(tmp_path, "# !false")


def test_a_page_has_code_output_and_pictures(tmp_path: Path):
    text, pictures = notebooks.page(
        outcomes(tmp_path, "from matplotlib import pyplot\nfigure, axes = pyplot.subplots()\nprint('drawn')"), "stem"
    )
    assert text.endswith("```\n\n```text\ndrawn\n```\n\n![Figure](stem-1.png)\n")
    assert list(pictures) == ["stem-1.png"]


def test_a_notebook_has_commands_and_files_as_magics(tmp_path: Path):
    made = json.loads(notebooks.notebook(outcomes(tmp_path, "# !echo one\n# %% mine.py\nx = 1\n# %%\nprint(2)")))
    assert [cell["source"] for cell in made["cells"]] == ["!echo one", "%%writefile mine.py\nx = 1", "print(2)"]
    assert made["cells"][2]["outputs"] == [{"output_type": "stream", "name": "stdout", "text": "2\n"}]
    assert made["nbformat"] == 4
