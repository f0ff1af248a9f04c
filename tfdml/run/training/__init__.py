"""Training by flags: model, optimizer, sampler, callbacks, checkpoints."""
