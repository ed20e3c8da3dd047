"""Gates for the agents of other frameworks, a module a framework.

    from interlock.adapters.openai_agents import gate_agent

    agent = gate_agent(agent, "deploy.rules")   # or gate_agent(agent): the server of INTERLOCK_URL

Each module needs the extra of its name, and imports nothing of another one. All share `gate` (ask about a
call, report its end), `backends` (in this process or at a server) and `coverage` (what is not seen, and
the probe). CONTRIBUTING.md says how one is added.
"""
