"""Identification of inertial parameters and friction from measured motion and joint forces, in bounded memory."""

from kinetree.identification.base_parameters import BaseParameters
from kinetree.identification.fit import InertialFit, fit_inertial_parameters
from kinetree.identification.parameters import FRICTION
from kinetree.identification.regression import Regression

__all__ = ["FRICTION", "BaseParameters", "InertialFit", "Regression", "fit_inertial_parameters"]
