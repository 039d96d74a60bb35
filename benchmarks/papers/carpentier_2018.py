"""Carpentier's algorithm for M⁻¹, as printed and as corrected, on a chain and on branching robots.

Each of three corrections is also left out by itself: line 21 before line 11, with line 12 for descendants only; `+=` in
line 14; all columns from i on in lines 30 to 34.

J. Carpentier, "Analytical inverse of the joint space inertia matrix", LAAS report 18125, 2018.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import kinetree as kt
from kinetree.operators.blocks import diagonal_blocks, shift_blocks

Array = np.ndarray[Any, np.dtype[Any]]
CORRECTIONS = ("line 21 first", "line 14 adds", "all later columns")


class _Parts:
    """Weights, joint maps and inertias of a robot without armature, as matrices."""

    def __init__(self, robot: kt.Model, q: Array) -> None:
        ops, mechanism = robot.operators(q, engine="reference"), robot.mechanism
        self.parents, self.topology = mechanism.parents, mechanism.topology
        self.X = [None if block is None else block.T for block in shift_blocks(ops.E_A, mechanism)]
        self.M = diagonal_blocks(ops.M, mechanism.m_starts)
        H = ops.H.dense()
        self.columns = [range(a, b) for a, b in pairwise(mechanism.v_starts)]
        nodes = [slice(a, b) for a, b in pairwise(mechanism.m_starts)]
        self.S = [H[np.r_[own], at].T for own, at in zip(self.columns, nodes, strict=True)]
        self.nv = mechanism.nv


def inverse(of: _Parts, diagonal_first: bool, adds: bool, later: bool) -> Array:
    """Algorithm 1 with some of the corrections, then mirrored."""
    n, nv = len(of.parents), of.nv
    inertia = [M.copy() for M in of.M]
    F, P = np.zeros((2, n, 6, nv))
    result = np.zeros((nv, nv))
    U: list[Any] = [None] * n
    D: list[Any] = [None] * n
    for i in reversed(range(n)):
        p, own = of.parents[i], list(of.columns[i])
        below = [c for j in of.topology.subtree(i) for c in of.columns[j]]
        U[i] = inertia[i] @ of.S[i]
        D[i] = np.linalg.inv(of.S[i].T @ U[i])
        if diagonal_first:
            result[np.ix_(own, own)] = D[i]
        if of.topology.children[i]:
            some = below[len(own) :] if diagonal_first else below
            result[np.ix_(own, some)] = -D[i] @ of.S[i].T @ F[i][:, some]  # line 12
            if p >= 0:
                moved = U[i] @ result[np.ix_(own, below)]  # line 14
                F[i][:, below] = F[i][:, below] + moved if adds else moved
                F[p][:, below] += of.X[i].T @ F[i][:, below]  # type: ignore[union-attr]
        elif p >= 0:
            F[p][:, own] += of.X[i].T @ U[i] @ result[np.ix_(own, own)]  # type: ignore[union-attr]  # line 19
        if not diagonal_first:
            result[np.ix_(own, own)] = D[i]  # line 21
        if p >= 0:
            rest = inertia[i] - U[i] @ D[i] @ U[i].T
            inertia[p] = inertia[p] + of.X[i].T @ rest @ of.X[i]  # type: ignore[union-attr]
    for i in range(n):
        p, own = of.parents[i], list(of.columns[i])
        some = list(range(own[0], nv)) if later else [c for j in of.topology.subtree(i) for c in of.columns[j]]
        if p >= 0:
            result[np.ix_(own, some)] -= D[i] @ U[i].T @ of.X[i] @ P[p][:, some]  # line 30
        P[i][:, some] = of.S[i] @ result[np.ix_(own, some)]  # line 32
        if p >= 0:
            P[i][:, some] += of.X[i] @ P[p][:, some]  # line 34
    mirrored: Array = np.triu(result) + np.triu(result, 1).T
    return mirrored


class Comparison:
    """Relative errors of M⁻¹ by robot and version."""

    def __init__(self) -> None:
        robots = {
            "chain of 5": kt.zoo.chain(5),
            "humanoid": kt.zoo.humanoid24(),
            "tree of all joints": kt.zoo.random_tree(8, seed=2),
        }
        self.errors: dict[str, dict[str, float]] = {}
        for name, robot in robots.items():
            robot = robot.with_armature({joint.name: np.zeros(joint.nv) for joint in robot.joints})
            q = robot.random_configuration(1)
            of, exact = _Parts(robot, q), np.linalg.inv(robot.mass_matrix(q))
            versions = {"as printed": (False, False, False), "corrected": (True, True, True)}
            for i, correction in enumerate(CORRECTIONS):
                versions[f"without: {correction}"] = tuple(j != i for j in range(3))  # type: ignore[assignment]
            self.errors[name] = {
                version: float(np.abs(inverse(of, *chosen) - exact).max() / np.abs(exact).max())
                for version, chosen in versions.items()
            }

    def as_json(self) -> object:
        """Everything, fit for JSON."""
        return {"errors": self.errors}

    def show(self, console: Console) -> None:
        """The errors, in a table."""
        table = Table("relative error of M⁻¹", *self.errors)
        for version in next(iter(self.errors.values())):
            table.add_row(version, *(f"{errors[version]:.1e}" for errors in self.errors.values()))
        console.print(table)

    def plot(self, file: Path) -> None:
        """Bars of the errors."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 3), layout="constrained")
        axes = figure.subplots()
        for i, (name, errors) in enumerate(self.errors.items()):
            axes.barh(np.arange(len(errors)) + 0.25 * i, np.maximum(list(errors.values()), 1e-17), 0.22, label=name)
            axes.set_yticks(np.arange(len(errors)) + 0.25, list(errors))
        axes.set_xscale("log")
        axes.set_xlabel("relative error of M⁻¹")
        figure.legend(loc="outside upper center", ncols=len(self.errors))
        figure.savefig(file)
