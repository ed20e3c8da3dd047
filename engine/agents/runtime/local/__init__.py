"""Commands run on this machine, each under a supervisor that ends all it started."""
