"""Turns and slices of Divide and Conquer."""
