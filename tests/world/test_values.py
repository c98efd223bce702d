"""What never changes: copies, files and equality of instances, interactions and populations."""

import copy
import pickle

import numpy as np
import pytest
import scipy.sparse

import influential_bandits as ib

EYE, NAMES = np.eye(2), ["a", "b"]
SPARSE = scipy.sparse.eye_array(2)
STORED = {  # each a value, and others that differ from it and from each other
    "instance": [
        ib.Instance(EYE, [0.0, 0.0]),
        ib.Instance(2 * EYE, [0.0, 0.0]),
        ib.Instance(EYE, [0.0, 1.0]),
        ib.Instance(EYE, [0.0, 0.0], arm_names=NAMES),
        ib.Instance(EYE, [0.0, 0.0], memory=0.5),
        ib.Instance(EYE, [0.0, 0.0], half_life=12),
        ib.Instance(ib.LowRankInteraction(EYE), [0.0, 0.0]),
        ib.Instance(SPARSE, [0.0, 0.0]),
        ib.Instance([[0, 1], [1, 0]], [0.0, 0.0], definite=False),
    ],
    "population": [
        ib.Population(EYE, [0.0, 0.0], 0.5),
        ib.Population(2 * EYE, [0.0, 0.0], 0.5),
        ib.Population(EYE, [0.0, 1.0], 0.5),
        ib.Population(EYE, [0.0, 0.0], 0.25),
        *(
            ib.Population(EYE, [0.0, 0.0], 0.5, **{name: value})
            for name, value in {
                "interaction_spread": 0.1,
                "unlike": True,
                "stay": 7,
                "stay_law": "geometric",
                "concurrency": 3,
                "returning": 0.25,
                "delay": 4,
                "delay_law": "geometric",
                "memory": 0.9,
                "arm_names": NAMES,
                "rounds_per_hour": 3.0,
                "open_hours": 8.0,
                "drift": 0.3,
            }.items()
        ),
        ib.Population(EYE, [0.0, 0.0], 0.5, half_life=5, rounds_per_hour=3.0),
    ],
}
VALUES = {
    **STORED,
    "interaction": [
        ib.DenseInteraction(EYE),
        ib.DenseInteraction(2 * EYE),
        ib.DenseInteraction(np.eye(3)),
        ib.LowRankInteraction(EYE),
        ib.LowRankInteraction([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]),
        ib.SparseInteraction(EYE),
        ib.SparseInteraction([[1.0, 1.0], [1.0, 1.0]]),
    ],
}
each_kind = pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)


def assert_same(again, value):
    assert again == value
    assert hash(again) == hash(value)
    assert repr(again) == repr(value)


@each_kind
@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, *(lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in (2, 5))],
    ids=["copy", "deepcopy", "pickle 2", "pickle 5"],
)
def test_a_copy_is_equal_and_as_immutable(values, copied):
    for value in values:
        again = copied(value)
        assert_same(again, value)
        with pytest.raises(AttributeError, match="make a new one"):
            again.memory = 0.5
        for array in vars(again).values():
            assert not (isinstance(array, np.ndarray) and array.flags.writeable)


@each_kind
def test_values_differ_in_every_part(values):
    for i, one in enumerate(values):
        for j, other in enumerate(values):
            assert (one == other) is (i == j)
    assert len(set(values)) == len(values)
    assert values[0] != "something else"


@pytest.mark.parametrize("values", STORED.values(), ids=STORED)
def test_a_file_gives_back_the_value(values, tmp_path):
    for value in values:
        value.save(tmp_path / "value.json")
        again = type(value).load(tmp_path / "value.json")
        assert_same(again, value)
        assert again.to_json() == value.to_json()
