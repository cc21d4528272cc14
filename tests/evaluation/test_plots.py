from xml.etree import ElementTree

from dualmind.evaluation.plots import heat_map


def test_a_heat_map_has_a_cell_for_each_share_and_says_them_in_words() -> None:
    drawn = ElementTree.fromstring(heat_map(["pick & place", "look"], [[1.0, 0.25], [0.5, 0.75]]))
    cells = drawn.findall("rect")
    assert [float(cell.get("fill-opacity", "")) for cell in cells] == [0.7, 0.17, 0.35, 0.52]
    assert len({(cell.get("x"), cell.get("y")) for cell in cells}) == 4
    assert drawn.findtext("title") == "after pick & place: 100%, 25.0%; after look: 50.0%, 75.0%"
