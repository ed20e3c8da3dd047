"""Gates for the agents of other frameworks: one module per framework.

    from interlock.adapters.openai_agents import gate_agent

    agent = gate_agent(agent, "deploy.rules")   # or gate_agent(agent): the server of INTERLOCK_URL

Each module needs the extra of its name, and imports nothing of another one. All share `gate` (request a
decision on a call, report its outcome), `backends` (in this process or at a server) and `coverage` (what
is not seen, and the probe). CONTRIBUTING.md describes how to add one.
"""
