"""Bars and heat maps, drawn for print and for a page, whatever the numbers and names."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from report_files import png_size, svg_texts

from influential_bandits.studies.logs.sections import cluster_order, heat_map
from influential_bandits.studies.report.content import (
    Bars,
    Figure,
    Grid,
    HeatMap,
    Panels,
    Series,
)
from influential_bandits.studies.report.static import (
    BY_NAME,
    COLOURS,
    draw,
    draw_inline,
    places,
)

SVG = "{http://www.w3.org/2000/svg}"
MATRIX = np.array([[2.0, -1.0, 0.5], [-1.0, 1.0, 0.0], [0.5, 0.0, 3.0]])
PICTURES = {
    "bars": Bars("p", "Title", ["a", "b", "c"], [1.0, -2.0, 0.5], "x", [0, -3, 0], [2, -1, 1]),
    "bars without intervals": Bars("p", "Title", ["a", "b"], [1.0, -2.0], "x"),
    "bars of zeros": Bars("p", "Title", ["a", "b"], [0.0, 0.0], "x", [0.0, 0.0], [0.0, 0.0]),
    "one bar": Bars("p", "Title", ["a"], [1.0], "x", [0.5], [1.5]),
    "no bars": Bars("p", "Title", [], [], "x", [], []),
    "bars of arrays": Bars("p", "Title", ["a"], np.array([3]), "x", np.array([2]), np.array([5])),
    "bars of numbers": Bars("p", "Title", ["20", "3", "100"], [1, 2, 3], "x"),
    "tiny bars": Bars("p", "Title", ["a", "b"], [1e-300, 1e300], "x"),
    "many bars": Bars("p", "Title", [f"arm {n}" for n in range(60)], np.arange(60), "x"),
    "heat map": HeatMap("p", "Title", ["a", "b", "c"], MATRIX),
    "heat map of zeros": HeatMap("p", "Title", ["a", "b"], np.zeros((2, 2))),
    "heat map of one": HeatMap("p", "Title", ["a"], [[-1.0]]),
    "heat map of numbers": HeatMap("p", "Title", ["20", "3", "100"], MATRIX),
    "odd names": Bars("p", "A < B & C", ["<b>x</b>", "a_b^c", "50 % & more"], [1, 2, 3], "x"),
    "one dollar": HeatMap("p", "Title", ["$5", "_hidden"], np.eye(2)),
}


RANKS = [[1.0, 2.5], [2.0, np.nan], [3.0, 10.0]]
GRIDS = {
    "ranks": Grid("p", "Title", ["a", "b", "c"], ["x", "y"], RANKS, 1.0, 10.0, digits=1),
    "shares": Grid("p", "Title", ["1", "20"], ["3", "5"], [[0.5, 1.0], [0.0, 0.25]], 1.0, 0.0),
    "one": Grid("p", "Title", ["$a"], ["<b>"], [[1.0]], 1.0, 1.0),
    "missing": Grid("p", "Title", ["a"], ["b"], [[np.nan]], 1.0, 2.0),
    "many": Grid("p", "Title", list("abcdefghij") * 2, ["y"], np.ones((20, 1)), 1.0, 20.0),
}


def svgs_of(text):
    """The drawings of a part of a page, parsed."""
    return [ET.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def texts_of(drawing):
    """What is written in a drawing, in order."""
    return [element.text for element in drawing.iter(SVG + "text")]


@pytest.mark.long
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_for_print(name, tmp_path):
    draw(PICTURES[name], tmp_path, {"source": "データ <x> & y", "ridge": 1.0})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["p.png", "p.svg"]
    width, height = png_size((tmp_path / "p.png").read_bytes())
    assert width > 600
    assert height > 200
    assert svg_texts(tmp_path / "p.svg") > 20


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_drawn_for_a_page(name):
    picture = PICTURES[name]
    text = draw_inline(picture, "spot")
    assert 'id="spot"' in text
    assert not re.search(r'(src|href)="(?!#|data:)', text)
    (drawing,) = svgs_of(text)
    told = texts_of(drawing)
    assert picture.title not in told, "the page has it, and breaks it into lines"
    assert [label for label in picture.labels if label not in told] == []


def test_a_drawing_takes_the_colours_of_its_page():
    """Black texts and lines could not be seen in the dark."""
    text = draw_inline(PICTURES["bars"], "spot")
    assert "currentColor" in text
    assert not re.search(r"(fill|stroke): #(000000|333333|010203)", text)


def test_figures_of_a_page_share_no_names_within():
    """A name that two figures have would make one of them use the clip of the other."""
    names = [set(re.findall(r'id="([^"]*)"', draw_inline(PICTURES["bars"], spot))) for spot in "ab"]
    assert names[0]
    assert not names[0] & names[1]


def test_a_drawing_shrinks_with_a_phone():
    text = draw_inline(PICTURES["bars"], "spot")
    assert "max-width:100%" in text
    assert not re.search(r"<svg[^>]* width=", text)


def test_names_that_are_numbers_stay_names_on_a_page():
    """Else arms 3, 20 and 100 would stand at these places of an axis of numbers."""
    (drawing,) = svgs_of(draw_inline(PICTURES["bars of numbers"], "spot"))
    names = [text for text in texts_of(drawing) if text in {"20", "3", "100"}]
    assert names == ["20", "3", "100"]


def test_markup_in_names_stays_text():
    text = draw_inline(HeatMap("p", "t", ["</svg><img src=x>"], [[1.0]]), "spot")
    assert text.count("</svg>") == 1
    assert "<img" not in text


def test_panels_have_a_figure_each_and_their_names(tmp_path):
    lines = [Series("as logged", [0, 1], [1, 2], kind="dashed")]
    figures = [
        Figure(f"f{n}", name, "x", "y", lines, log_x=False, log_y=False)
        for n, name in enumerate(["a", "<b>", "$c$", "d"])
    ]
    panels = Panels("p", "Title", figures)
    text = draw_inline(panels, "spot")
    assert len(svgs_of(text)) == 4
    assert "&lt;b&gt;" in text
    draw(panels, tmp_path, {})
    assert png_size((tmp_path / "p.png").read_bytes())[0] > 600


@pytest.mark.parametrize("label", [r"$\nonsense$", "$a_$"])
def test_names_with_two_dollars_are_drawn_for_print(label, tmp_path):
    draw(HeatMap("p", "t", [label], [[1.0]]), tmp_path, {})


def test_names_of_any_script_are_drawn_for_print_quietly(tmp_path):
    draw(HeatMap("p", "t", ["茶"], [[1.0]]), tmp_path, {})


def test_a_histogram_of_one_bin_is_drawn_for_print(tmp_path):
    bar = Series("s", [1.0], [2.0], kind="bars")
    draw(Figure("p", "t", "x", "y", [bar], log_x=False, log_y=False), tmp_path, {})


# Grids


@pytest.mark.long
@pytest.mark.parametrize("name", GRIDS)
def test_a_grid_is_drawn_for_print(name, tmp_path):
    draw(GRIDS[name], tmp_path, {})
    width, height = png_size((tmp_path / "p.png").read_bytes())
    assert width > 600
    assert height > 200


def test_a_grid_has_its_numbers_on_a_page():
    (drawing,) = svgs_of(draw_inline(GRIDS["ranks"], "spot"))
    told = texts_of(drawing)
    assert [text for text in told if text in {"1", "2", "2.5", "3", "10"}] == [
        *("1", "2.5", "2", "3", "10"),
    ]
    assert {"a", "b", "c", "x", "y"} <= set(told)


# Lines


def crowd():
    faint = [Series(f"other {n}", [1, 10], [n + 1, n + 2], kind="faint") for n in range(9)]
    shown = [Series(name, [1, 10], [1, 2]) for name in ("best", "LCB", "second")]
    return Figure("p", "Title", "x", "y", [*shown, *faint])


def test_lines_have_their_names_where_a_mouse_is_over_them():
    (drawing,) = svgs_of(draw_inline(crowd(), "spot"))
    names = [title.text for title in drawing.iter(SVG + "title")]
    assert names == [*(f"other {n}" for n in range(9)), "best", "LCB", "second"]


def test_faint_lines_are_drawn_for_print_with_one_entry_in_the_legend(tmp_path):
    draw(crowd(), tmp_path, {})
    text = (tmp_path / "p.svg").read_text(encoding="utf-8")
    assert "9 others" in text
    assert "other 3" not in text


def test_lines_of_one_figure_have_colours_of_their_own():
    names = ["a", "LCB", "b", "InfluentialLCB", "c", "d", "e"]
    given = places(names)
    assert len(set(given)) == len(names) == len(COLOURS)
    assert given[1] == BY_NAME["LCB"]
    assert given[3] == BY_NAME["InfluentialLCB"]
    assert places(["a", "b", "c"]) == [0, 1, 2]
    assert set(places([f"line {n}" for n in range(30)])) == set(range(len(COLOURS)))


# The order of the arms


@pytest.mark.parametrize("arms", [1, 2, 3, 8])
def test_arms_are_only_reordered(arms):
    matrix = np.random.default_rng(arms).normal(size=(arms, arms))
    matrix += matrix.T
    names = tuple(f"arm {n}" for n in range(arms))
    order = cluster_order(matrix)
    assert sorted(order) == list(range(arms))
    picture = heat_map("p", "t", names, matrix)
    for i in range(arms):
        for j in range(arms):
            one, other = picture.labels.index(names[i]), picture.labels.index(names[j])
            assert np.asarray(picture.values)[one, other] == matrix[i, j]


def test_arms_that_are_alike_stand_together():
    group = np.array([0, 1, 0, 1, 0, 1])
    matrix = (group[:, None] == group).astype(float)
    assert np.count_nonzero(np.diff(group[cluster_order(matrix)])) == 1


def test_a_matrix_of_zeros_has_an_order():
    assert sorted(cluster_order(np.zeros((4, 4)))) == [0, 1, 2, 3]
