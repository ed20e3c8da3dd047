"""Commands on this machine, each under a supervisor that ends everything they started."""
