"""Linear algebra over the rationals, which rounds nothing: slow and obviously right."""

from fractions import Fraction

import numpy as np


def solved(rows, columns):
    """Solve a linear system over the rationals by elimination; None if it is singular."""
    n = len(rows)
    table = [
        [Fraction(value) for value in (*row, *column)]
        for row, column in zip(rows, columns, strict=True)
    ]
    for k in range(n):
        pivot = next((i for i in range(k, n) if table[i][k]), None)
        if pivot is None:
            return None
        table[k], table[pivot] = table[pivot], table[k]
        table[k] = [value / table[k][k] for value in table[k]]
        for i in range(n):
            if i != k and table[i][k]:
                factor = table[i][k]
                table[i] = [a - factor * b for a, b in zip(table[i], table[k], strict=True)]
    return [row[n:] for row in table]


def rational(numbers):
    return [Fraction(number) for number in np.asarray(numbers, float).tolist()]
