"""A user's own graph: the files that are read, and one line for each that is not."""

from __future__ import annotations

import gzip
import json

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from dynascope import graphs as g
from dynascope.checks import InputError
from dynascope.tasks.data import graph_files
from dynascope.tasks.data.files import DataNotFoundError

EDGES = [[0, 1], [1, 2], [2, 2], [2, 3], [1, 0], [0, 1]]


def test_every_form_gives_the_same_graph(tmp_path):
    known = g.from_edges(EDGES)
    labeled = g.to_networkx(known.with_labels([5, 6, 7, 8]))
    text = "# a comment\n" + "\n".join(f"{i}, {j}" for i, j in EDGES)
    (tmp_path / "a.csv").write_text(text)
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write(text)
    np.savez(tmp_path / "b.npz", edges=np.array(EDGES), label=np.array([5, 6, 7, 8]))
    sp.save_npz(tmp_path / "c.npz", g.to_scipy(known))
    for name, write in (("d.graphml", nx.write_graphml), ("e.gml", nx.write_gml)):
        renamed = nx.Graph(labeled)
        for _, data in renamed.nodes(data=True):
            data["y"] = data.pop("labels")
        write(renamed, tmp_path / name)
    (tmp_path / "f.json").write_text(json.dumps(nx.node_link_data(labeled, edges="edges")))
    for name in ("a.csv", "a.txt.gz", "b.npz", "c.npz", "d.graphml", "e.gml", "f.json"):
        found = graph_files.load(str(tmp_path / name))
        np.testing.assert_array_equal(found.indices, known.indices, err_msg=name)
        assert found.loops == 1
        if name[0] in "bdef":
            assert found.labels is not None
            assert found.labels.tolist() == [5, 6, 7, 8], name
    assert graph_files.load(str(tmp_path / "a.csv")).collapsed == 1
    assert graph_files.load("cora").nodes == 2708


def test_tensors_are_read_without_unpickling(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"edge_index": torch.tensor(EDGES).T, "y": torch.tensor([1, 0, 1, 0])}, tmp_path / "a.pt")
    found = graph_files.load(str(tmp_path / "a.pt"))
    assert found.nodes == 4
    assert found.labels is not None
    torch.save({"edge_index": torch.tensor(EDGES).T, "y": torch.tensor([1])}, tmp_path / "a.pt")
    assert graph_files.load(str(tmp_path / "a.pt")).labels is None, "one label is that of the graph"
    torch.save({"edge_index": torch.tensor(EDGES).T, "y": torch.tensor([1, 0, 1])}, tmp_path / "a.pt")
    with pytest.raises(InputError, match=r"labels must be one for each of the 4 nodes; a.pt holds 3"):
        graph_files.load(str(tmp_path / "a.pt"))
    torch.save(Harmful(), tmp_path / "b.pt")
    with pytest.raises(ValueError, match=r"graph must be tensors alone"):
        graph_files.load(str(tmp_path / "b.pt"))


class Harmful:
    def __reduce__(self):
        return (print, ("unpickled",))


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.txt", b"0 1\n1 -2\n", "node numbers from 0 on; line 2 of a.txt has -2"),
        ("a.txt", b"0 1\nhello there\n", "integers; line 2 of a.txt has 'hello'"),
        ("a.txt", b"0\n1\n", "two node numbers in each line; line 1"),
        ("a.txt", b"# nothing\n", "graph must hold edges; a.txt holds none"),
        ("a.png", b"\x89PNG\xff\xfe\x00", "is not text, nor of a known form"),
        ("a.txt.gz", b"nonsense", "a.txt.gz is not gzipped text"),
        ("a.npz", b"nonsense", "plain arrays; a.npz is damaged, or is not"),
        ("a.graphml", b"<no", "networkx.read_graphml reads"),
        ("a.json", b"{}", "node-link JSON"),
        ("a.gpickle", b"", "must not be a pickle"),
    ],
)
def test_what_is_no_graph_is_one_line(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=told) as caught:
        graph_files.load(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "told"),
    [
        ({"edges": np.array([[0.5, 1.0]])}, r"integers of shape \(edges, 2\); those of a.npz are float64"),
        ({"edges": np.array([0, 1, 2])}, r"those of a.npz are int64 of shape \(3,\)"),
        ({"edges": np.array([[0, -1]])}, "in a.npz edges must hold node numbers from 0 on; got -1"),
        ({"edges": np.array([[0, 2]]), "label": np.zeros(2, int)}, "one for each of the 3 nodes; a.npz holds 2"),
        ({"x": np.zeros(3)}, "a.npz holds neither"),
    ],
)
def test_arrays_that_are_no_graph_are_one_line(tmp_path, arrays, told):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=told):
        graph_files.load(str(tmp_path / "a.npz"))


def test_a_graph_that_is_not_there_is_told(tmp_path):
    for given, told in (
        ("coro", "there is none at 'coro' \\(did you mean 'cora'"),
        (str(tmp_path), "there is a folder at"),
        (
            str(tmp_path / "a.txt"),
            "graph must be the path of a file, or the name of a citation graph; there is none at",
        ),
    ):
        with pytest.raises(DataNotFoundError, match=told):
            graph_files.load(given)


def test_labels_are_one_for_each_node_or_named(tmp_path):
    file = tmp_path / "labels.txt"
    file.write_text("1\n0\n2\n")
    assert graph_files.load_labels(str(file), 3).tolist() == [1, 0, 2]
    file.write_text("2 0.5\n0 1.5\n")
    np.testing.assert_array_equal(graph_files.load_labels(str(file), 3), [1.5, np.nan, 0.5])
    for content, told in (
        ("1\n2\n", "one for each of the 3 nodes; labels.txt holds 2"),
        ("1 2 3\n", "one or two numbers in each line"),
        ("0 a\n1 b\n", "labels must be numbers"),
        ("7 1\n", "name nodes below 3; labels.txt names 7"),
        ("1 1\n1 2\n", "name each node once"),
        ("-1 1\n", "from 0 on"),
        ("-1\n-1\n-1\n", "labels must hold a label for at least one node"),
    ):
        file.write_text(content)
        with pytest.raises(ValueError, match=told):
            graph_files.load_labels(str(file), 3)
    with pytest.raises(FileNotFoundError, match="labels must be the path of a file"):
        graph_files.load_labels(str(tmp_path / "none.txt"), 3)
