"""The fast forms of the model and of inference: Triton kernels, CUDA graphs, packed decoding."""
