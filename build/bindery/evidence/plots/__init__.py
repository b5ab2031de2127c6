"""Plots of views."""
