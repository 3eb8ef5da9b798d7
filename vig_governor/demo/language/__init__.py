"""
A small language model around its network: conversion, tokens, and writing in pieces.

The package has relative imports only, so that Triton's Python backend can import it from its own
environment, where neither ROS nor this project is installed. Serving needs numpy, onnxruntime and
tokenizers, converting also gguf and onnx; all are in that environment (requirements/triton.txt).
"""
