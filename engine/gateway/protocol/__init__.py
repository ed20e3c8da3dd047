"""The wire protocol: methods, frames, tokens, rights."""
