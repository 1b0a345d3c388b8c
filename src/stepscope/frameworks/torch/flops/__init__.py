"""Formulas for the floating-point operations of PyTorch's operators."""

from stepscope.frameworks.torch.flops import elements, products

FORMULAS = {**elements.FORMULAS, **products.FORMULAS}
